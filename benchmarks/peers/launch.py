"""A broker that is looked into: `python -m benchmarks.peers.launch LOOK -- ARGUMENTS`.

    --counts FILE    SIGUSR1 has it write its requests of store and registry there (`peers.counts`)
    --holds FILE     SIGUSR1 has it write how long its event loop was held (`peers.holds`)
    --profile FILE   from SIGUSR1 on its event loop runs under cProfile, by CPU time; written at the
                     end, with the CPU seconds of loop and process beside it

Else it is `python -m broker` with the same arguments.
"""

import argparse
import cProfile
import json
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.peers.counted_registry import CountedRegistry
from benchmarks.peers.counts import write_counts
from benchmarks.peers.holds import LoopMeter
from broker.process.arguments import add_arguments, settings_of
from broker.process.serve import ServeSettings, serve
from logstore.wiring.open import OpenLog


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--counts", type=Path)
    parser.add_argument("--holds", type=Path)
    parser.add_argument("--profile", type=Path)
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_args()
    broker = argparse.ArgumentParser(prog="broker")
    add_arguments(broker)
    settings = settings_of(broker.parse_args(options.arguments))
    if options.profile is not None:
        return _profiled(settings, options.profile)
    if options.holds is not None:
        LoopMeter(options.holds).begin()

    def wrap(opened: OpenLog) -> OpenLog:
        return opened if options.counts is None else _counted(opened, options.counts)

    return serve(settings, wrap=wrap)


def _counted(opened: OpenLog, path: Path) -> OpenLog:
    registry = CountedRegistry(opened.runner.registry)

    def tell(*_: object) -> None:
        write_counts(path, opened.counts, registry.counts)

    signal.signal(signal.SIGUSR1, tell)
    return replace(opened, runner=replace(opened.runner, registry=registry))


def _profiled(settings: ServeSettings, path: Path) -> int:
    profile = cProfile.Profile(time.thread_time)
    began_s = {"loop": 0.0, "process": 0.0}

    def begin(*_: object) -> None:
        began_s.update(loop=time.thread_time(), process=time.process_time())
        profile.enable()

    signal.signal(signal.SIGUSR1, begin)
    try:
        return serve(settings)
    finally:
        profile.dump_stats(path)
        now_s = {"loop": time.thread_time(), "process": time.process_time()}
        spent_s = {name: now_s[name] - began_s[name] for name in now_s}
        path.with_suffix(".json").write_text(json.dumps(spent_s))


if __name__ == "__main__":
    sys.exit(main())
