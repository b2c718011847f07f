"""A real broker that may die at a named step: `python -m tests.scenarios.harness.launch`.

Runs the production `broker.serve` on ports that count steps (`death`). Without --die it differs in
nothing from `python -m broker`. With --die and --armed-by signal, SIGUSR1 begins the count; it says
`armed` then.

    --die STEP --report FILE [--armed-by start|signal] -- ARGUMENTS OF THE BROKER
"""

import argparse
import signal
import sys
from dataclasses import replace
from pathlib import Path

from broker.arguments import add_arguments, settings_of
from broker.serve import serve
from logstore.open import OpenLog
from tests.scenarios.harness.death import Fate, MortalRegistry, MortalStore, Step


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--die", type=Step.parse)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--armed-by", choices=("start", "signal"), default="start")
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_args()
    broker = argparse.ArgumentParser(prog="broker")
    add_arguments(broker)
    settings = settings_of(broker.parse_args(options.arguments))
    if options.die is None:
        return serve(settings)
    fate = Fate(options.die, options.report)
    if options.armed_by == "start":
        fate.arm()
    else:
        signal.signal(signal.SIGUSR1, lambda *_: _arm(fate))
    return serve(settings, wrap=lambda opened: _mortal(opened, fate))


def _mortal(opened: OpenLog, fate: Fate) -> OpenLog:
    performer = replace(
        opened.performer,
        store=MortalStore(opened.performer.store, fate),
        registry=MortalRegistry(opened.performer.registry, fate),
    )
    return replace(opened, performer=performer)


def _arm(fate: Fate) -> None:
    fate.arm()
    print("armed", flush=True)


if __name__ == "__main__":
    sys.exit(main())
