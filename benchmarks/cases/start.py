"""From spawn to the first accepted connection, and memory when nothing has happened."""

from benchmarks.contenders import Contenders, beside_kafka
from benchmarks.options import Options
from benchmarks.peers.server import Server


def contenders(options: Options) -> Contenders:
    return beside_kafka(_run, options)


def _run(server: Server, _options: Options) -> dict[str, float]:
    return {"start s": server.started_s, "idle RSS MB": server.rss_bytes() / 1e6}
