"""Makes one JSON document in small steps on the event loop; it is written out in a thread.

A document is a generator: it yields where others may go on, and returns what is encoded.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from http import HTTPStatus

from broker.http.server import Answer, HttpPage
from broker.http.stepped import Stepped
from logstore.slices import Slices

JSON = "application/json; charset=utf-8"

logger = logging.getLogger(__name__)

Document = Mapping[str, object]
MakingDocument = Slices[Document]


class JsonPage:
    """One answer that is being made."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, making: MakingDocument, answer: Answer
    ) -> None:
        self._loop = loop
        self._making = making
        self._answer = answer

    def begin(self) -> None:
        Stepped(self._loop, self._making, self._encode, self._end_badly).step()

    def _encode(self, document: Document) -> None:
        encoding = self._loop.run_in_executor(None, encode_document, document)
        encoding.add_done_callback(self._encoded)

    def _encoded(self, done: "asyncio.Future[bytes]") -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            self._end_badly(error)
        else:
            self._answer(HttpPage(HTTPStatus.OK, done.result(), JSON))

    def _end_badly(self, error: BaseException) -> None:
        logger.error("document cannot be made", exc_info=error)
        self._answer(json_trouble(HTTPStatus.INTERNAL_SERVER_ERROR, "fault in the broker"))


def json_trouble(status: HTTPStatus, why: str) -> HttpPage:
    return HttpPage(status, encode_document({"error": why}), JSON)


def encode_document(document: Document) -> bytes:
    """ASCII alone: names are bytes of clients, whatever characters they stand for."""
    return json.dumps(document, separators=(",", ":")).encode("ascii")
