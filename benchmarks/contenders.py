"""The contenders of a case: each is one run, server and all, that gives its figures."""

import tempfile
from collections.abc import Callable, Generator, Mapping
from functools import partial
from pathlib import Path

from benchmarks.options import Options
from benchmarks.peers.kafka import start_kafka
from benchmarks.peers.log_place import log_place
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Server, Start, running

Contender = Callable[[], Mapping[str, float]]
"""Value by figure."""

Contenders = Mapping[str, Contender]

Parts = Generator[Contenders, None, None]
"""The same contenders over and over, each time for other figures: a case whose servers take long to
fill yields them from within what it filled."""

Run = Callable[[Server, Options], Mapping[str, float]]
"""The work of a case on a server that was started for it."""


def beside_kafka(run: Run, options: Options) -> Contenders:
    """One broker of ours, and one node of Apache Kafka unless it is not wanted."""
    found = on_log(run, options)
    if options.has_peer:
        found |= on_servers({"kafka": start_kafka}, run, options)
    return found


def on_log(run: Run, options: Options, *, brokers: int = 1) -> dict[str, Contender]:
    """So many brokers of ours, whose log lies in the store that was asked for."""
    return {"logstore": partial(_at_place, run, options, brokers)}


def clusters(run: Run, options: Options) -> Contenders:
    """1, 2 and 4 brokers of ours; one node of Apache Kafka, and three that keep three copies."""
    starts: dict[str, Start] = {
        f"logstore x{brokers}": partial(start_logstore, brokers=brokers, profiles=options.profiles)
        for brokers in (1, 2, 4)
    }
    if options.has_peer:
        starts["kafka x1"] = start_kafka
        starts["kafka x3"] = partial(start_kafka, nodes=3)
    return on_servers(starts, run, options)


def on_servers(starts: Mapping[str, Start], run: Run, options: Options) -> dict[str, Contender]:
    return {name: partial(_once, start, run, options) for name, start in starts.items()}


def _at_place(run: Run, options: Options, brokers: int) -> Mapping[str, float]:
    with (
        tempfile.TemporaryDirectory(prefix="logstore-bench-") as folder,
        log_place(options, Path(folder)) as place,
    ):
        place.far()
        start = partial(start_logstore, place=place, profiles=options.profiles, brokers=brokers)
        return _once(start, run, options)


def _once(start: Start, run: Run, options: Options) -> Mapping[str, float]:
    with running(start) as server:
        return run(server, options)
