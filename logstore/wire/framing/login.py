"""A client's login by SASL, as requests to send and answers to them; the caller moves the bytes.

steps = log_in(login, nonce)
key, version, request = next(steps)
... = steps.send(response)             until StopIteration

`client_security.login_by` goes through them on a blocking connection. Pure.
"""

from collections.abc import Generator
from typing import Any, NamedTuple

from logstore.security.scram import ClientExchange, LoginFailed
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from logstore.wire.messages.sasl_handshake import SaslHandshakeRequest

HANDSHAKE_KEY, HANDSHAKE_VERSION = 17, 1
AUTHENTICATE_KEY, AUTHENTICATE_VERSION = 36, 2


class ClientLogin(NamedTuple):
    mechanism: str
    """As SaslHandshake names it."""
    scram: str
    """The SCRAM mechanism by which it goes."""
    name: str
    password: str

    def __repr__(self) -> str:
        return f"ClientLogin({self.mechanism}, {self.name})"


Request = tuple[int, int, Any]
"""API key, version, request."""


def log_in(login: ClientLogin, nonce: str) -> Generator[Request, Any, None]:
    """Raises `LoginFailed`, with the broker's words."""
    shown = yield HANDSHAKE_KEY, HANDSHAKE_VERSION, SaslHandshakeRequest(login.mechanism)
    if shown.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise LoginFailed("this listener asks for no login: leave sasl.* settings out")
    if shown.error_code:
        offered = ", ".join(shown.mechanisms) or "none"
        raise LoginFailed(f"the broker does not offer {login.mechanism}, but {offered}")
    exchange = ClientExchange(login.scram, login.name, login.password, nonce)
    challenge = yield _token(exchange.first())
    last = yield _token(exchange.prove(_data(challenge)))
    exchange.check(_data(last))


def _token(data: bytes) -> Request:
    return AUTHENTICATE_KEY, AUTHENTICATE_VERSION, SaslAuthenticateRequest(data)


def _data(response: SaslAuthenticateResponse) -> bytes:
    if response.error_code:
        why = response.error_message or f"error {response.error_code}"
        raise LoginFailed(f"the broker refuses the login: {why}")
    return bytes(response.auth_bytes)
