"""The login of a connection, as connections and handlers use it (`broker.access.login.Login`)."""

from typing import NamedTuple, Protocol

from logstore.wire.errors import ErrorCode


class LoginAnswer(NamedTuple):
    """To a token of the client."""

    data: bytes
    is_done: bool


class LoginState(Protocol):
    principal: str
    """Empty before the client is logged in."""
    mechanism: str
    user: str | None
    """Its name among the users; None also for brokers."""
    takes_tokens: bool
    """Whether the next frame is a token without a header."""

    @property
    def awaits_token(self) -> bool: ...

    @property
    def shown_mechanisms(self) -> list[str]: ...

    @property
    def claimed(self) -> str: ...

    @property
    def session_ms(self) -> int: ...

    def refusal(self, key: int, /) -> str | None:
        """Why a request of this API is not taken now, if it is not."""
        ...

    def choose(self, mechanism: str, version: int, /) -> ErrorCode: ...

    def take(self, token: bytes, /) -> LoginAnswer:
        """Raises `LoginFailed`."""
        ...
