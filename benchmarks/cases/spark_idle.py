"""Requests of a standing stream without records to store and registry, and dollars a month.

The driver's part of the source, by steps of a clock; executors do nothing then. --partitions says
for which numbers of partitions.
"""

from functools import partial

from benchmarks.contenders import Contender, Contenders, on_servers
from benchmarks.load import new_topic
from benchmarks.options import Options
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Server
from benchmarks.spark.asked import asked_when_idle


def contenders(options: Options) -> Contenders:
    found: dict[str, Contender] = {}
    for partitions in options.partitions:
        name = f"{partitions:,} part."
        found |= on_servers({name: start_logstore}, partial(_run, partitions), options)
    return found


def _run(partitions: int, server: Server, options: Options) -> dict[str, float]:
    topic = new_topic(server.bootstrap, partitions=partitions)
    return asked_when_idle(str(server.directory), topic)
