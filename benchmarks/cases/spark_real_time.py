"""Spark's real-time trigger over `format("kafka")`, topic to topic, 100 records/s for a minute.

Spark offers the trigger to its own Kafka source and sink alone; with our brokers it works as with
Kafka's. Latency is from sent to the first topic to read from the second.
"""

from benchmarks.contenders import Contenders, beside_kafka
from benchmarks.load import new_topic
from benchmarks.options import Options
from benchmarks.peers.server import Server
from benchmarks.spark.jars import session_jars
from benchmarks.spark.launch import run_job

JOB = "benchmarks.spark.real_time_job"
RECORDS_S, SECONDS = 100, 60.0


def contenders(options: Options) -> Contenders:
    return beside_kafka(_run, options)


def _run(server: Server, options: Options) -> dict[str, float]:
    return run_job(
        JOB,
        {
            "jars": [str(jar) for jar in session_jars()],
            "bootstrap": server.bootstrap,
            "source": new_topic(server.bootstrap, partitions=1),
            "sink": new_topic(server.bootstrap, partitions=1),
            "brokers": [one.pid for one in server.processes],
            "records_s": RECORDS_S,
            "seconds": SECONDS * options.scale,
        },
    )
