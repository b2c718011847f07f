"""Requests of three brokers to the registry, idle and under load, and DynamoDB's price of them.

Requests are counted in the brokers, so the figures are the same on any back end; units are those of
DynamoDB on demand, prices those of `logstore.prices`. A minute of rest has about one look
at everything per broker in it. --partitions says for which numbers of partitions.
"""

import time
from functools import partial

from benchmarks.contenders import Contender, Contenders, on_servers
from benchmarks.load import new_topic, trickle
from benchmarks.options import Options
from benchmarks.peers.counts import Counts, counts_between, read_counts
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Server
from logstore.prices import RowUnits, cost_of_rows

BROKERS = 3
SETTLE_S = 5.0
IDLE_S, LOADED_S = 60.0, 60.0
LOAD_BYTES_S = 2_000_000
MONTH_S = 730 * 3600
KINDS = ("get", "query", "put", "update", "delete")
READS = ("get", "query")


def contenders(options: Options) -> Contenders:
    start = partial(start_logstore, brokers=BROKERS, is_counted=True)
    found: dict[str, Contender] = {}
    for partitions in options.partitions:
        name = f"{partitions:,} part."
        found |= on_servers({name: start}, partial(_run, partitions), options)
    return found


def _run(partitions: int, server: Server, options: Options) -> dict[str, float]:
    began = time.monotonic()
    topic = new_topic(server.bootstrap, partitions=partitions, replicas=BROKERS)
    figures = {"creation s (wall)": time.monotonic() - began}
    time.sleep(SETTLE_S)
    for state in ("idle", "loaded"):
        before, cpu_s, began = read_counts(server), server.cpu_s(), time.monotonic()
        if state == "idle":
            time.sleep(IDLE_S * options.scale)
        else:
            seconds = LOADED_S * options.scale
            trickle(server.bootstrap, topic, seconds=seconds, bytes_s=LOAD_BYTES_S)
        took_s = time.monotonic() - began
        asked = counts_between(before, read_counts(server))
        cpu_s = server.cpu_s() - cpu_s
        figures |= {f"{state}: {name}": value for name, value in _figures(asked, took_s).items()}
        figures[f"{state}: CPU ms/s per broker"] = 1000 * cpu_s / took_s / BROKERS
    return figures


def _figures(asked: list[Counts], took_s: float) -> dict[str, float]:
    calls = [sum(one.registry.values()) for one in asked]
    reads = sum(one.units[kind] for one in asked for kind in READS)
    units = RowUnits(sum(one.units.total() for one in asked) - reads, reads)
    return {
        "requests/s per broker": sum(calls) / took_s / BROKERS,
        "requests/s of the busiest": max(calls) / took_s,
        **{
            f"{kind}/s per broker": sum(one.registry[kind] for one in asked) / took_s / BROKERS
            for kind in KINDS
        },
        "read units/s, all": units.reads / took_s,
        "write units/s, all": units.writes / took_s,
        "dollars a month, all": cost_of_rows(units) / took_s * MONTH_S,
    }
