"""Errors become the code of the whole answer, or of one item of it."""

import importlib
from types import TracebackType
from typing import Any, Protocol

from broker.answers.decisions.refuse import Refuse
from broker.answers.error_codes import code_of
from logstore.errors import LogstoreError
from logstore.wire.framing.apis import Api, encode_frame


class Failing(Protocol):
    """An answer, or an item of one, that has an error code and its text."""

    error_code: int
    error_message: str | None


class errors_in:  # noqa: N801 - reads as the statement that it is
    """An error of logstore within becomes the code and the text of an answer, or of an item.

    with errors_in(result):
        check_topic_name(name)
    """

    __slots__ = ("_item",)

    def __init__(self, item: Failing) -> None:
        self._item = item

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, LogstoreError):
            return False
        self._item.error_code, self._item.error_message = code_of(error), str(error)
        return True


def refused(api: Api, version: int, refusal: Refuse) -> Any:
    """Returns the response that refuses the whole request.

    Raises `refusal` where a response of that version has no error code of its own: the connection
    is closed then.
    """
    module = importlib.import_module(f"{api.package}.{api.module}")
    make = getattr(module, f"{api.name}Response")
    response = make()
    if not hasattr(response, "error_code"):
        raise refusal
    response.error_code = refusal.code
    if hasattr(response, "error_message"):
        response.error_message = str(refusal)
    if encode_frame(0, api, version, response) == encode_frame(0, api, version, make()):
        raise refusal  # the client would take it for success
    return response
