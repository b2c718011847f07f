"""Spark writes a topic: `format("logstore")` with each delivery, beside `format("kafka")`.

MB of values. Rows lie in Spark's memory; a write of all of them, once warm, and micro-batches of 10
rows. Ours lies in a directory. What brokers use counts: ours copy what tasks staged. CPU seconds
are the figures to compare.
"""

from functools import partial

from benchmarks.contenders import Contender, Contenders, on_servers
from benchmarks.load import new_topic
from benchmarks.options import Options
from benchmarks.peers.kafka import start_kafka
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Server
from benchmarks.spark.jars import session_jars
from benchmarks.spark.launch import run_job

JOB = "benchmarks.spark.write_job"
PARTITIONS = 4
SIZES = {"1KB": (1000, 200_000), "100B": (100, 1_000_000)}
"""Bytes of a value, and rows."""

CODECS = ("none", "lz4")
MICRO_ROWS, MICRO_BATCHES = 10, 50
DELIVERIES = ("exactly-once", "at-least-once")


def contenders(options: Options) -> Contenders:
    found: dict[str, Contender] = {}
    for delivery in DELIVERIES:
        run = partial(_run, delivery)
        found |= on_servers({f"logstore {delivery}": start_logstore}, run, options)
    if options.has_peer:
        found |= on_servers({"kafka": start_kafka}, partial(_run, None), options)
    return found


def _run(delivery: str | None, server: Server, options: Options) -> dict[str, float]:
    figures: dict[str, float] = {}
    for size, (record_bytes, rows) in SIZES.items():
        for codec in CODECS:
            name = f"{size} {codec}"
            if not name.startswith(options.load):
                continue
            topic = new_topic(server.bootstrap, partitions=PARTITIONS)
            if delivery is None:
                where = {
                    "kafka.bootstrap.servers": server.bootstrap,
                    "kafka.compression.type": codec,
                }
            else:
                where = {"path": str(server.directory), "compression": codec, "delivery": delivery}
            rows = max(2000, int(rows * options.scale))
            found = run_job(
                JOB,
                {
                    "jars": [str(jar) for jar in session_jars()],
                    "format": "kafka" if delivery is None else "logstore",
                    "options": where,
                    "topic": topic,
                    "brokers": [one.pid for one in server.processes],
                    "rows": rows,
                    "record_bytes": record_bytes,
                    "micro_rows": MICRO_ROWS,
                    "micro_batches": max(5, int(MICRO_BATCHES * options.scale)),
                },
            )
            gigabytes = rows * record_bytes / 1e9
            figures |= {
                f"{name}: MB/s": 1000 * gigabytes / found["wall_s"],
                f"{name}: Java CPU-s/GB": found["java_s"] / gigabytes,
                f"{name}: Python CPU-s/GB": found["python_s"] / gigabytes,
                f"{name}: brokers CPU-s/GB": found["brokers_s"] / gigabytes,
                f"{name}: micro-batch, ms": found["trigger_ms"],
                f"{name}: micro-batch, addBatch ms": found["add_batch_ms"],
                f"{name}: micro-batch, Spark CPU ms": found["spark_ms"],
                f"{name}: micro-batch, brokers CPU ms": found["brokers_ms"],
            }
    return figures
