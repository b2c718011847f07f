"""Numbers of SCRAM mechanisms in Kafka's messages (`ScramMechanism`)."""

from collections.abc import Mapping

from logstore.security.scram import SHA_256, SHA_512

NUMBERS: Mapping[str, int] = {SHA_256: 1, SHA_512: 2}
MECHANISMS: Mapping[int, str] = {number: name for name, number in NUMBERS.items()}
