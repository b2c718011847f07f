"""Which listeners stand open: beyond this machine, and without knowing who connects.

A broker refuses to start with one, unless `logstore.allow.anonymous` says that it is wanted: every
peer that reaches the port may then read, write and delete everything, as far as ACLs for
`User:ANONYMOUS` do not say otherwise.

    loopback, or a protocol with SASL                      closed
    SSL with `ssl.client.auth=required` on that listener   closed
    everything else                                        open
"""

from collections.abc import Sequence

from broker.network.listeners import ListenAddress
from logstore.config.address_overrides import is_loopback
from logstore.config.broker import BrokerSettings
from logstore.config.listener_security import PROTOCOL_MAP, protocol_of
from logstore.config.tls import CLIENT_AUTH
from logstore.errors import Refused

ALLOWED = "logstore.allow.anonymous"
WARNING = "every client that reaches this listener is %s: listener=%s; %s"
WHAT_TO_DO = "let it ask for a login, listen on loopback, or let the network close it"


def open_listeners(
    places: Sequence[ListenAddress], settings: BrokerSettings
) -> list[ListenAddress]:
    """Returns the places where clients of other machines need no login."""
    return [place for place in places if _is_open(place, settings)]


def check_posture(places: Sequence[ListenAddress], settings: BrokerSettings) -> None:
    """Raises `Refused` where a listener stands open and no setting says that it may."""
    if settings.flag(ALLOWED):
        return
    for place in open_listeners(places, settings):
        raise Refused(
            "without a login every peer that reaches this listener may read, write and delete "
            f"everything: listener={place.name}://{place.host}:{place.port}; let it ask for one "
            f"({PROTOCOL_MAP}={place.name}:SASL_SSL), listen on 127.0.0.1, or set "
            f"{ALLOWED}=true if the network lets trusted peers alone reach it"
        )


def _is_open(place: ListenAddress, settings: BrokerSettings) -> bool:
    if is_loopback(place.host):
        return False
    protocol = protocol_of(place.name, settings.text(PROTOCOL_MAP))
    if protocol.is_sasl:
        return False
    asks = settings.of_listener(place.name).text(CLIENT_AUTH) == "required"
    return not (protocol.is_tls and asks)
