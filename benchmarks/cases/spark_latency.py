"""A stream of Spark's at low load, `foreachBatch`: how late rows come, what an idle one costs.

One record at a time gives the floor of a micro-batch and its phases; then 100 records/s for a
minute, latency from acknowledged to the sink; then a minute of nothing. Ours lies in a directory: a
flush every 10 ms. What an idle driver asks of store and registry is `spark_idle`; Kafka's asks its
broker, which shows as the broker's CPU.
"""

from benchmarks.contenders import Contenders, beside_kafka
from benchmarks.load import new_topic
from benchmarks.options import Options
from benchmarks.peers.server import Server
from benchmarks.spark.jars import session_jars
from benchmarks.spark.launch import run_job

JOB = "benchmarks.spark.latency_job"
PARTITIONS = 1
RECORDS_S, SECONDS, IDLE_S, SINGLE_RECORDS = 100, 60.0, 60.0, 30


def contenders(options: Options) -> Contenders:
    return beside_kafka(_run, options)


def _run(server: Server, options: Options) -> dict[str, float]:
    topic = new_topic(server.bootstrap, partitions=PARTITIONS)
    ours, kafkas = {"path": str(server.directory)}, {"kafka.bootstrap.servers": server.bootstrap}
    return run_job(
        JOB,
        {
            "jars": [str(jar) for jar in session_jars()],
            "format": server.name,
            "options": ours if server.name == "logstore" else kafkas,
            "bootstrap": server.bootstrap,
            "topic": topic,
            "brokers": [one.pid for one in server.processes],
            "single_records": max(1, int(SINGLE_RECORDS * options.scale)),
            "records_s": RECORDS_S,
            "seconds": SECONDS * options.scale,
            "idle_s": IDLE_S * options.scale,
        },
    )
