"""The refusal of a request with a code of Kafka's. Pure."""

from logstore.errors import Invalid
from logstore.wire.errors import ErrorCode


class Refuse(Invalid):
    """A handler refuses a request, or one item of it, with a code of Kafka's."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
