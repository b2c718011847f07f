"""A real broker that may die at a named step: `python -m tests.scenarios.harness.launch`.

Runs the production `broker.process.serve` on ports that count steps (`death`). Without --die it
differs in nothing from `python -m broker`. With --die and --armed-by signal, SIGUSR1 begins the
count; it says `armed` then. Ten times a second it leaves in --counts what its store's own meter
says.

With --stop-timeout it gives a stop so many seconds.

    --die STEP --report FILE [--armed-by start|signal] [--counts FILE] [--stop-timeout S]
        -- ARGUMENTS OF THE BROKER
"""

import argparse
import signal
import sys
from dataclasses import replace
from pathlib import Path

from broker.process import life
from broker.process.arguments import add_arguments, settings_of
from broker.process.serve import serve
from logstore.wiring.open import OpenLog
from tests.scenarios.harness.counts import leave_counts
from tests.scenarios.harness.death import Fate, MortalRegistry, MortalStore, Step


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--die", type=Step.parse)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--counts", type=Path)
    parser.add_argument("--armed-by", choices=("start", "signal"), default="start")
    parser.add_argument("--stop-timeout", type=float, default=life.STOP_TIMEOUT_S)
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_args()
    life.STOP_TIMEOUT_S = options.stop_timeout
    broker = argparse.ArgumentParser(prog="broker")
    add_arguments(broker)
    settings = settings_of(broker.parse_args(options.arguments))
    fate = None if options.die is None else Fate(options.die, options.report)
    if fate is not None and options.armed_by == "start":
        fate.arm()
    elif fate is not None:
        signal.signal(signal.SIGUSR1, lambda *_: _arm(fate))

    def wrap(opened: OpenLog) -> OpenLog:
        if options.counts is not None:
            leave_counts(opened.counts, options.counts)
        return opened if fate is None else _mortal(opened, fate)

    return serve(settings, wrap=wrap)


def _mortal(opened: OpenLog, fate: Fate) -> OpenLog:
    runner = replace(
        opened.runner,
        store=MortalStore(opened.runner.store, fate),
        registry=MortalRegistry(opened.runner.registry, fate),
    )
    return replace(opened, runner=runner)


def _arm(fate: Fate) -> None:
    fate.arm()
    print("armed", flush=True)


if __name__ == "__main__":
    sys.exit(main())
