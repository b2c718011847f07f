"""State that all logins share: users as last read, the cluster's secret, counts."""

import base64
import hmac
import secrets
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

from broker.access.audit import LINES_PER_S, note_login
from broker.access.login import MECHANISMS, Login
from broker.network.listeners import Listener
from broker.network.login_state import LoginState
from logstore.config.broker import BrokerSettings
from logstore.config.listener_security import SecurityProtocol
from logstore.config.login_settings import REAUTH_MS, SASL_MECHANISMS
from logstore.epoch.shared_rows import SharedRows
from logstore.formats.user_row import Users
from logstore.ports.clock import Clock
from logstore.security.broker_login import BROKER_MECHANISM, broker_password, broker_verifier
from logstore.security.scram import SHA_256, Verifier
from logstore.wire.framing.login import ClientLogin

_NONCE_BYTES = 18


class LoggedIn(Protocol):
    """A connection, as far as its login goes."""

    login: LoginState | None

    def refuse(self, why: str, /) -> None: ...


class Asking(Protocol):
    """A connection, as far as lines for auditors go."""

    login: LoginState | None
    peer: str
    listener: Listener


class Logins:
    def __init__(
        self,
        settings: BrokerSettings,
        rows: SharedRows,
        clock: Clock,
        secret: bytes,
        connections: Callable[[], Iterable[LoggedIn]],
    ) -> None:
        """`secret` is that of the cluster; empty where no listener asks for logins."""
        self.counts: Counter[tuple[str, bool]] = Counter()
        """Logins by mechanism, and whether they succeeded."""
        self.secret = hmac.digest(secret, b"unknown users", "sha256")
        self._cluster_secret = secret
        self.reauth_s = 0.0
        self._settings = settings
        self._rows = rows
        self._clock = clock
        self._connections = connections
        self._users: Users | None = None
        self._refusals_s, self._refusals_left = 0.0, LINES_PER_S
        settings.on_change(self._settings_changed)
        rows.watch(self._rows_changed)

    def _settings_changed(self) -> None:
        self.reauth_s = self._settings.number(REAUTH_MS) / 1000

    def _rows_changed(self) -> None:
        """Connections of users who are no more end."""
        users = self._rows.users
        if users is self._users:
            return
        self._users = users
        for connection in tuple(self._connections()):
            login = connection.login
            if login is not None and login.user is not None and login.user not in users:
                connection.refuse(f"its user was deleted: principal={login.principal}")

    def audit(self, connection: Asking, refusal: str = "") -> None:
        """Write the line of a login that has ended, of those that failed some a second at most."""
        login = connection.login
        assert login is not None
        now_s = self.now_s()
        if refusal and now_s - self._refusals_s >= 1:
            self._refusals_s, self._refusals_left = now_s, LINES_PER_S
        if refusal:
            self._refusals_left -= 1
            if self._refusals_left < 0:
                return
        note_login(
            now_ms=self.now_ms(),
            principal=login.claimed,
            peer=connection.peer,
            mechanism=login.mechanism,
            listener=connection.listener.name,
            refusal=refusal,
        )

    def begin(self, protocol: SecurityProtocol, listener: str) -> Login | None:
        """For a new connection; None where the listener asks for no login."""
        if not protocol.is_sasl:
            return None
        return Login(self, mechanisms_of(self._settings, listener))

    # As `login.Known`

    @property
    def users(self) -> Users:
        return self._rows.users

    @property
    def broker_verifier(self) -> Verifier | None:
        return broker_verifier(self._cluster_secret) if self._cluster_secret else None

    def now_s(self) -> float:
        return self._clock.monotonic_s()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def draw_nonce(self) -> str:
        return base64.b64encode(secrets.token_bytes(_NONCE_BYTES)).decode()

    def note(self, mechanism: str, *, is_ok: bool) -> None:
        self.counts[mechanism, is_ok] += 1


def mechanisms_of(settings: BrokerSettings, listener: str) -> tuple[str, ...]:
    """Returns those that clients of a listener may use, the strongest first."""
    text = settings.of_listener(listener).text(SASL_MECHANISMS)
    return tuple(one for one in MECHANISMS if one in {part.strip() for part in text.split(",")})


def login_of_broker(broker: int, secret: bytes) -> ClientLogin | None:
    """By which a broker logs in to others; None without a secret."""
    if not secret:
        return None
    return ClientLogin(BROKER_MECHANISM, SHA_256, str(broker), broker_password(secret))
