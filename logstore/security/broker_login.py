"""How brokers prove to each other that they belong together: SCRAM over the cluster's secret. Pure.

The exchange is mutual, so a broker gives nothing to a port that does not know the secret.
"""

from functools import lru_cache

from logstore.security.scram import (
    ITERATIONS_MIN,
    SHA_256,
    Verifier,
    salted_password,
    verifier_of,
)

BROKER_MECHANISM = "LOGSTORE-BROKER"
"""Its name in SaslHandshake; no answer lists it."""
_SALT = b"logstore: brokers"


def broker_password(secret: bytes) -> str:
    """The password that the brokers of a cluster share."""
    return secret.hex()


@lru_cache(maxsize=4)
def broker_verifier(secret: bytes) -> Verifier:
    salted = salted_password(SHA_256, broker_password(secret), _SALT, ITERATIONS_MIN)
    return verifier_of(SHA_256, salted, _SALT, ITERATIONS_MIN)
