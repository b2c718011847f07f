"""The login of one connection by SASL: which requests it may send, and who it is.

    SaslHandshake ──▶ SaslAuthenticate, as often as the mechanism needs ──▶ logged in
                                                                            │ its session ends
                                                                            ▼
                                                          SaslHandshake, or the connection ends

After a SaslHandshake of version 0 each frame is a token and no request, until the client is logged
in (KIP-43). A session may end (`connections.max.reauth.ms`): the client then logs in again, as the
same principal, on the same connection (KIP-368).

An unknown user costs the same exchange as a wrong password, and gets the same text: a salt that
follows from the name stands for one that is not there.
"""

import hmac
from collections.abc import Sequence
from enum import Enum, auto
from typing import Protocol

from broker.network.login_state import LoginAnswer
from logstore.formats.user_row import Users
from logstore.security.broker_login import BROKER_MECHANISM
from logstore.security.scram import (
    ITERATIONS_MIN,
    SHA_256,
    SHA_512,
    FirstMessage,
    LoginFailed,
    ServerExchange,
    Verifier,
    parse_first,
)
from logstore.wire.errors import ErrorCode
from logstore.wire.framing.apis import API_VERSIONS_KEY

SASL_HANDSHAKE_KEY, SASL_AUTHENTICATE_KEY = 17, 36
MECHANISMS = (SHA_512, SHA_256)
_KEYS = frozenset((API_VERSIONS_KEY, SASL_HANDSHAKE_KEY, SASL_AUTHENTICATE_KEY))
_SALT_BYTES = 26
"""As many as Kafka's tools give."""


class Known(Protocol):
    """Logins are checked by it (`broker.access.logins.Logins`)."""

    reauth_s: float
    """After so long a client logs in again; 0: never."""

    @property
    def users(self) -> Users: ...

    @property
    def secret(self) -> bytes: ...

    @property
    def broker_verifier(self) -> Verifier | None:
        """Of all brokers; None where none logs in."""
        ...

    def now_s(self) -> float: ...

    def now_ms(self) -> int: ...

    def draw_nonce(self) -> str: ...

    def note(self, mechanism: str, *, is_ok: bool) -> None: ...


class _Stage(Enum):
    NEW = auto()
    """Nothing was asked for yet."""
    CHOSEN = auto()
    """The mechanism is; its first message is to come."""
    CHALLENGED = auto()
    DONE = auto()
    FAILED = auto()


class Login:
    """`principal` is empty before the client is logged in."""

    def __init__(self, known: Known, mechanisms: Sequence[str]) -> None:
        self.principal = ""
        self.user: str | None = None
        """The name in `Users`; None also for brokers."""
        self.takes_tokens = False
        """Whether the next frame is a token without a header."""
        self._known = known
        self._mechanisms = mechanisms
        self._stage = _Stage.NEW
        self.mechanism = ""
        self._exchange: ServerExchange | None = None
        self._name = ""
        self._ends_s: float | None = None

    def refusal(self, key: int) -> str | None:
        """Why a request of this API is not taken now, if it is not."""
        if self._stage is _Stage.DONE:
            if self._ends_s is None or key in _KEYS or self._known.now_s() < self._ends_s:
                return None
            return "its session has ended, and it did not log in again"
        return None if key in _KEYS else f"a request before the login: api_key={key}"

    @property
    def shown_mechanisms(self) -> list[str]:
        return list(self._mechanisms)

    def choose(self, mechanism: str, version: int) -> ErrorCode:
        """The client names its mechanism."""
        is_again = self._stage is _Stage.DONE
        if self._stage not in (_Stage.NEW, _Stage.DONE) or (is_again and self._ends_s is None):
            return ErrorCode.ILLEGAL_SASL_STATE
        is_broker = mechanism == BROKER_MECHANISM and self._known.broker_verifier is not None
        if mechanism not in self._mechanisms and not is_broker:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        if is_again and mechanism != self.mechanism:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self.mechanism, self._stage = mechanism, _Stage.CHOSEN
        self.takes_tokens = version == 0
        return ErrorCode.NONE

    @property
    def awaits_token(self) -> bool:
        return self._stage in (_Stage.CHOSEN, _Stage.CHALLENGED)

    def take(self, token: bytes) -> LoginAnswer:
        """Go on with a token of the client, which `awaits_token`. Raises `LoginFailed`."""
        try:
            if self._stage is _Stage.CHOSEN:
                first = parse_first(token)
                self._name = first.name
                self._exchange = self._begin(first)
                self._stage = _Stage.CHALLENGED
                return LoginAnswer(self._exchange.challenge.encode(), is_done=False)
            assert self._exchange is not None
            last = self._exchange.check(token)
            self._log_in()
        except LoginFailed:
            self._stage = _Stage.FAILED
            self._known.note(self.mechanism, is_ok=False)
            raise
        finally:
            if self._stage is not _Stage.CHALLENGED:
                self._exchange, self.takes_tokens = None, False
        self._known.note(self.mechanism, is_ok=True)
        return LoginAnswer(last, is_done=True)

    def _begin(self, first: FirstMessage) -> ServerExchange:
        nonce = self._known.draw_nonce()
        if self.mechanism == BROKER_MECHANISM:
            verifier = self._known.broker_verifier
            assert verifier is not None
            return ServerExchange(SHA_256, first, [verifier], nonce)
        credential = self._known.users.get(first.name, {}).get(self.mechanism)
        if credential is not None:
            verifiers: Sequence[Verifier] = credential.at(self._known.now_ms())
        else:
            verifiers = [_verifier_of_no_user(self._known.secret, self.mechanism, first.name)]
        return ServerExchange(self.mechanism, first, verifiers, nonce)

    def _log_in(self) -> None:
        is_broker = self.mechanism == BROKER_MECHANISM
        principal = f"Broker:{self._name}" if is_broker else f"User:{self._name}"
        if self.principal and principal != self.principal:
            raise LoginFailed("a client may not become another principal")
        self.principal = principal
        self.user = None if is_broker else self._name
        reauth_s = self._known.reauth_s
        self._ends_s = None if is_broker or not reauth_s else self._known.now_s() + reauth_s
        self._stage = _Stage.DONE

    @property
    def claimed(self) -> str:
        """The principal that it is, or gave itself out for."""
        return self.principal or f"User:{self._name}"

    @property
    def session_ms(self) -> int:
        """How long the client stays logged in; 0: for ever."""
        if self._ends_s is None:
            return 0
        return max(1, round((self._ends_s - self._known.now_s()) * 1000))


def _verifier_of_no_user(secret: bytes, mechanism: str, name: str) -> Verifier:
    """One that no password has, always the same for a name."""
    drawn = hmac.digest(secret, f"{mechanism} {name}".encode(), "sha512")
    key = hmac.digest(secret, drawn, "sha256" if mechanism == SHA_256 else "sha512")
    return Verifier(drawn[:_SALT_BYTES], key, key, ITERATIONS_MIN)
