"""How far queries are behind, per partition: a listener, and its numbers for Prometheus.

    lag = LagListener()
    spark.streams.addListener(lag)
    lag.serve("127.0.0.1", 9108)          # or look at lag.lags(), or give it a `publish`

Spark reports a query's progress after each batch. The source adds the ends of the log at that time,
so the lag is known without a request.
"""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from pyspark.sql.streaming.listener import StreamingQueryListener

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METRICS = (
    ("logstore_spark_lag_offsets", "offsets in the log that the query has not processed", "lag"),
    ("logstore_spark_next_offset", "first offset that the query has not processed", "next"),
)


class PartitionLag(NamedTuple):
    """`next` is the first offset not processed, `end` where the log ended then."""

    query: str
    topic: str
    partition: int
    next: int
    end: int

    @property
    def lag(self) -> int:
        return max(0, self.end - self.next)


Publish = Callable[[Sequence[PartitionLag]], None]


class LagListener(StreamingQueryListener):
    """`publish` gets the lags of one query after each of its batches. It may be called from any
    thread; Spark logs its exceptions."""

    def __init__(self, publish: Publish | None = None) -> None:
        self._publish = publish
        self._lock = threading.Lock()
        self._lags: dict[str, list[PartitionLag]] = {}
        self._server: ThreadingHTTPServer | None = None

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing is known yet."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """The last report is still valid."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        progress = event.progress
        lags = list(lags_of(progress.name or str(progress.id), progress.sources))
        with self._lock:
            self._lags[str(progress.id)] = lags
        if self._publish is not None and lags:
            self._publish(lags)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        with self._lock:
            self._lags.pop(str(event.id), None)

    def lags(self) -> list[PartitionLag]:
        """Of all queries that run, as of their last batch."""
        with self._lock:
            return sorted(one for lags in self._lags.values() for one in lags)

    def metrics(self) -> str:
        """The lags in Prometheus' text format."""
        return metrics_text(self.lags())

    def serve(self, host: str, port: int) -> tuple[str, int]:
        """Answer any GET with `metrics`, in a thread, until `close`. Where it listens."""
        listener = self

        class MetricsHandler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = listener.metrics().encode()
                self.send_response(200)
                self.send_header("content-type", CONTENT_TYPE)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Scrapes are not logged."""

        self._server = ThreadingHTTPServer((host, port), MetricsHandler)
        serve = self._server.serve_forever
        threading.Thread(target=serve, name="logstore-lag", daemon=True).start()
        return host, self._server.server_port

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


def lags_of(query: str, sources: Sequence[Any]) -> Iterator[PartitionLag]:
    """From a progress' `sources`; those of other formats have none."""
    for source in sources:
        done, known = _next_of(source.endOffset), _next_of(source.latestOffset)
        for (topic, partition), following in sorted(done.items()):
            end = known.get((topic, partition), following)
            yield PartitionLag(query, topic, partition, following, end)


def metrics_text(lags: Sequence[PartitionLag]) -> str:
    lines = []
    for name, meaning, field in _METRICS:
        lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge"]
        for one in lags:
            labels = f'query="{_escaped(one.query)}",topic="{_escaped(one.topic)}"'
            lines.append(f'{name}{{{labels},partition="{one.partition}"}} {getattr(one, field)}')
    return "".join(f"{line}\n" for line in lines)


def _next_of(text: str | None) -> dict[tuple[str, int], int]:
    """From the JSON of `spark_source.planning.offsets`; empty for that of another source."""
    try:
        topics = json.loads(text or "null")["topics"]
        return {
            (name, int(number)): int(offset)
            for name, topic in topics.items()
            for number, offset in topic["next"].items()
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
