"""How clients speak on each listener: which protocol, and settings that one listener has alone.

    listener.security.protocol.map = INTERNAL:PLAINTEXT,EXTERNAL:SASL_SSL

Without a map a listener speaks the protocol of its name, of other names PLAINTEXT. A map that is
given has every listener, so that one whose name is misspelt there does not stand open. Pure.
"""

from collections.abc import Mapping
from enum import Enum

from logstore.config.kinds import InvalidConfig

PROTOCOL_MAP = "listener.security.protocol.map"


class SecurityProtocol(Enum):
    """Kafka's names (`org.apache.kafka.common.security.auth.SecurityProtocol`)."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def is_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def is_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


BUILTIN_PROTOCOLS: Mapping[str, SecurityProtocol] = {one.value: one for one in SecurityProtocol}


def parse_protocol_map(text: str) -> Mapping[str, SecurityProtocol]:
    """Protocols by the name of their listener, in capitals. Raises `InvalidConfig`."""
    protocols: dict[str, SecurityProtocol] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, word = (part.strip().upper() for part in item.partition(":"))
        if not name or word not in BUILTIN_PROTOCOLS:
            raise InvalidConfig(
                f"invalid value {text!r} for configuration {PROTOCOL_MAP}: {item!r} is not "
                f"LISTENER:PROTOCOL with one of {', '.join(BUILTIN_PROTOCOLS)}"
            )
        if name in protocols:
            raise InvalidConfig(
                f"invalid value {text!r} for configuration {PROTOCOL_MAP}: {name} is there twice"
            )
        protocols[name] = BUILTIN_PROTOCOLS[word]
    return protocols


def protocol_of(listener: str, text: str) -> SecurityProtocol:
    """The protocol of a listener by its name; `text` is the map. Raises `InvalidConfig`."""
    protocols = parse_protocol_map(text)
    found = protocols.get(listener)
    if found is None and protocols:
        raise InvalidConfig(
            f"{PROTOCOL_MAP} has no protocol for the listener {listener}: "
            f"add {listener}:PLAINTEXT, or one of {', '.join(BUILTIN_PROTOCOLS)}"
        )
    return found or BUILTIN_PROTOCOLS.get(listener, SecurityProtocol.PLAINTEXT)
