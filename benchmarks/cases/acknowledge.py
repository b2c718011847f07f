"""Time to acknowledge at 5 MB/s, one record a batch as they come: p50 and p99 in milliseconds.

Wall time, so only as good as the machine is quiet; beside the peer in the same run.
"""

from benchmarks.contenders import Contenders, beside_kafka
from benchmarks.load import acknowledged_ms, new_topic
from benchmarks.options import Options
from benchmarks.peers.server import Server

RATE_BYTES_S, SECONDS = 5_000_000, 10


def contenders(options: Options) -> Contenders:
    return beside_kafka(_run, options)


def _run(server: Server, options: Options) -> dict[str, float]:
    count = int(RATE_BYTES_S * SECONDS * options.scale) // 1000
    took_ms = acknowledged_ms(
        server.bootstrap,
        new_topic(server.bootstrap),
        bytes_s=RATE_BYTES_S,
        goes_on=lambda sent: sent < count,
    )
    return {
        "p50 ms": took_ms[len(took_ms) // 2],
        "p99 ms": took_ms[len(took_ms) * 99 // 100],
    }
