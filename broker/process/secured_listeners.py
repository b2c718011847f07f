"""The TLS listeners of a process: made at its start, watched until its end."""

import asyncio
from collections.abc import Mapping, Sequence

from broker.network.listeners import Listener
from broker.tls.handshakes import Handshakes
from broker.tls.secured_listener import SecuredListener, look_again_and_again
from logstore.config.broker import BrokerSettings
from logstore.config.kinds import InvalidConfig
from logstore.config.listener_settings import check_listeners
from logstore.config.tls import INTER_BROKER
from logstore.ports.clock import Clock


class SecuredListeners:
    def __init__(
        self, listeners: Sequence[Listener], settings: BrokerSettings, clock: Clock
    ) -> None:
        """Raises `Invalid` for a listener whose settings of TLS cannot be used."""
        self.listeners = listeners
        """All, the plain ones too."""
        check_listeners(settings.given, (one.name for one in listeners))
        between = settings.text(INTER_BROKER).upper()
        if between and between not in (one.name for one in listeners):
            raise InvalidConfig(f"{INTER_BROKER}={between} names no listener of --listen")
        loop = asyncio.get_running_loop()
        self.handshakes = Handshakes(loop)
        self.by_name: Mapping[str, SecuredListener] = {
            one.name: SecuredListener(
                one.name,
                settings.of_listener(one.name).text,
                self.handshakes,
                names_clients=not one.protocol.is_sasl,
            )
            for one in listeners
            if one.protocol.is_tls
        }
        self._watch = loop.create_task(look_again_and_again(self.by_name.values(), clock))

    def close(self) -> None:
        self._watch.cancel()
        self.handshakes.close()
