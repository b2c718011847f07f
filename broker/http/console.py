"""The console: one page for people, its style and script, and the JSON documents that it reads.

    /console                               the page; /console.css, /console.js, /console.svg
    /api/v1/cluster                        this broker, all brokers, counters
    /api/v1/topics/PAGE                    topics in the order of their names
    /api/v1/partitions/TOPIC/PAGE          partitions of one topic
    /api/v1/groups/PAGE                    groups that this broker coordinates

Documents are read from what this broker knows anyway: no request to store, registry or another
broker. Deliberately missing: anything that changes something.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from importlib.resources import files

from broker.http.cluster_json import cluster_document
from broker.http.groups_json import groups_document
from broker.http.json_page import JsonPage, MakingDocument, json_trouble
from broker.http.observed import Observed
from broker.http.server import Answer, HttpPage, Route, RouteFamily
from broker.http.topics_json import partitions_document, topics_document

API = "/api/v1/"
STATIC = "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Only files of this port, and no script or style within the page."""
KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
NO_PAGE = "the path ends with the number of a page, from 1"
STARTING = "the broker is starting: ask again"

_PAGE = re.compile(r"[1-9][0-9]{0,5}")

MakePage = Callable[[Observed, int], MakingDocument]


class Console:
    """`watched` gives the parts of the epoch that runs now, None while there is none."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        version: str,
        watched: Callable[[], Observed | None],
    ) -> None:
        self._loop = loop
        self._version = version
        self._watched = watched

    def routes(self) -> Mapping[str, Route]:
        return {
            "/console": _static("console.html"),
            **{f"/console.{kind}": _static(f"console.{kind}") for kind in ("css", "js", "svg")},
            f"{API}cluster": self._cluster,
        }

    def families(self) -> Mapping[str, RouteFamily]:
        return {
            f"{API}topics/": partial(self._page, topics_document),
            f"{API}groups/": partial(self._page, groups_document),
            f"{API}partitions/": self._partitions,
        }

    def _cluster(self, answer: Answer) -> None:
        self._make(cluster_document(self._watched(), self._version, self._loop.time()), answer)

    def _page(self, make: MakePage, rest: str, answer: Answer) -> None:
        watched, number = self._watched(), page_number(rest)
        if number is None:
            answer(json_trouble(HTTPStatus.NOT_FOUND, NO_PAGE))
        elif watched is None:
            answer(json_trouble(HTTPStatus.SERVICE_UNAVAILABLE, STARTING))
        else:
            self._make(make(watched, number), answer)

    def _partitions(self, rest: str, answer: Answer) -> None:
        """No character of a topic's name is another one in a path."""
        name, _, page = rest.rpartition("/")
        watched = self._watched()
        topic = None if watched is None else watched.broker.log.topics.get(name)
        if watched is None:
            answer(json_trouble(HTTPStatus.SERVICE_UNAVAILABLE, STARTING))
        elif topic is None:
            answer(json_trouble(HTTPStatus.NOT_FOUND, "there is no topic of this name"))
        else:
            self._page(partial(partitions_document, topic), page, answer)

    def _make(self, making: MakingDocument, answer: Answer) -> None:
        JsonPage(self._loop, making, answer).begin()


def page_number(text: str) -> int | None:
    """None where `text` is no number of a page."""
    return int(text) if _PAGE.fullmatch(text) else None


def _static(name: str) -> Route:
    """A file of this package; it is read once."""
    body = files("broker.http").joinpath(STATIC, name).read_bytes()
    page = HttpPage(HTTPStatus.OK, body, KINDS[name.rpartition(".")[2]], POLICY)
    return lambda answer: answer(page)
