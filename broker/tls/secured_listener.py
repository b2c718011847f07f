"""A TLS listener: the context of new connections, which follows its files, and who a client is."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable

from broker.tls.handshakes import Handshakes
from broker.tls.link import RECEIVED_BYTES, SecuredConnection, TlsLink
from logstore.config.tls import MAPPING_RULES, NAME_CHECK
from logstore.errors import Invalid, LogstoreError
from logstore.ports.clock import Clock
from logstore.security.certificates import subject
from logstore.security.principal_rules import PrincipalRules
from logstore.wiring.tls_contexts import Text, client_context, server_tls

LOOK_S = 10.0
CERTIFICATE_BYTES_MAX = 16 * 1024
"""Of a client."""

logger = logging.getLogger(__name__)


class SecuredListener:
    def __init__(
        self, name: str, text: Text, handshakes: Handshakes, *, names_clients: bool = True
    ) -> None:
        """`names_clients`: by their certificates; not where clients log in. Raises `Invalid`."""
        self.name = name
        self.handshakes = handshakes
        self.loop = asyncio.get_running_loop()
        self.received = memoryview(bytearray(RECEIVED_BYTES))
        self._text = text
        self._names_clients = names_clients
        self._rules = PrincipalRules(text(MAPPING_RULES))
        self._tls = server_tls(text)
        self.peer_context = self._make_peer_context()
        """For connections to this listener of other brokers."""
        self._trouble = ""

    @property
    def context(self) -> ssl.SSLContext:
        return self._tls.context

    @property
    def ends_ms(self) -> int:
        """When the certificate that new connections see ends."""
        return self._tls.ends_ms

    def over(self, above: Callable[[], SecuredConnection]) -> Callable[[], TlsLink]:
        """Makes a link for each connection that `above` makes."""
        return lambda: TlsLink(self, above)

    def identify(self, certificate: bytes | None) -> str:
        """Returns the principal by a client's certificate, empty where it has none of it.

        Called in the thread of a handshake. Raises `Invalid` where it has none, or `Corrupt`.
        """
        if certificate is None or not self._names_clients:
            return ""
        if len(certificate) > CERTIFICATE_BYTES_MAX:
            raise Invalid(
                f"certificate too large: bytes={len(certificate)} max={CERTIFICATE_BYTES_MAX}"
            )
        return f"User:{self._rules.name_of(subject(certificate))}"

    async def look(self, now_ms: int) -> None:
        """Take the pair that the files have now; keep the old one if that cannot be used."""
        try:
            tls = await asyncio.to_thread(server_tls, self._text, self._tls)
            same = tls is self._tls
            context = (
                self.peer_context if same else await asyncio.to_thread(self._make_peer_context)
            )
            if tls is not self._tls and tls.ends_ms <= now_ms < self._tls.ends_ms:
                raise Invalid("the new certificate has ended, the old one has not")
        except (LogstoreError, OSError, ValueError) as error:
            self._report(str(error))
            return
        self._trouble = ""
        if tls is not self._tls:
            self._tls = tls
            self.peer_context = context
            logger.info("certificate taken: listener=%s ends_ms=%d", self.name, tls.ends_ms)

    def _make_peer_context(self) -> ssl.SSLContext:
        checks_name = bool(self._text(NAME_CHECK))
        return client_context(self._text, checks_name=checks_name, trusts_itself=True)

    def _report(self, trouble: str) -> None:
        """Once, until it changes."""
        if trouble != self._trouble:
            logger.error(
                "certificate of a listener not replaced, the old one stays: listener=%s ends_ms=%d "
                "%s",
                self.name,
                self.ends_ms,
                trouble,
            )
            self._trouble = trouble


async def look_again_and_again(listeners: Iterable[SecuredListener], clock: Clock) -> None:
    """Look at the files of all listeners every `LOOK_S`, until cancelled.

    By content: Kubernetes swaps a link, and files of the same second may differ.
    """
    listeners = tuple(listeners)
    while listeners:
        await clock.sleep_s(LOOK_S)
        for listener in listeners:
            await listener.look(clock.now_ms())
