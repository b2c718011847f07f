"""Every alert fired by its fault, and ended: `python -m tests.scenarios.harness.alerts`.

Prints a line for each alert: the fault, the seconds until its expression held and until it fired at
shortened times, the seconds until it ended, and its page. `--only ALERT` for some.
"""

import argparse
import logging
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from logstore.cli.output import print_table
from logstore.ports.clock import SystemClock, blocking_sleep_s
from tests.scenarios.harness.alert_faults import DRILLS, AlertDrill
from tests.scenarios.harness.alert_stage import AlertStage, alert_stage, shortened
from tests.servers.prometheus import FIRING
from tests.servers.promtool import why_no_promtool
from tools.monitoring.alerts import ALERTS

CALM_S, FIRE_S, END_S = 180.0, 600.0, 420.0
LOOK_S = 0.5
COLUMNS = ("alert", "fault", "held after s", "fired after s", "times /", "ended after s", "page")


class AlertSilent(AssertionError):
    """An alert did not do what was waited for."""


@dataclass(frozen=True, slots=True)
class Fired:
    alert: str
    fault: str
    held_s: float
    fired_s: float
    divisor: int
    ended_s: float
    page: str

    def cells(self) -> tuple[str, ...]:
        return (
            self.alert,
            self.fault,
            f"{self.held_s:.0f}",
            f"{self.fired_s:.0f}",
            str(self.divisor),
            f"{self.ended_s:.0f}",
            Path(self.page).stem,
        )


def run_drills(directory: Path, drills: Sequence[AlertDrill]) -> tuple[list[Fired], list[str]]:
    """One after the other on one stage; what fired and ended, and what did not."""
    divisors = {name: drill.divisor for drill in drills for name in drill.alerts}
    rules = [shortened(one, divisors[one.name]) for one in ALERTS if one.name in divisors]
    fired: list[Fired] = []
    silent: list[str] = []
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # moto's line for each request
    with alert_stage(directory, rules) as stage:
        for drill in drills:
            try:
                found = _drill(stage, drill)
            except AssertionError as error:  # of what a fault needs, too
                silent.append(str(error))
                print(error, flush=True)
                continue
            fired += found
            for one in found:
                print("  ".join(one.cells()), flush=True)
    return fired, silent


def _drill(stage: AlertStage, drill: AlertDrill) -> list[Fired]:
    """Raises `AlertSilent`."""
    clock = SystemClock()
    _await(stage, drill, CALM_S, "before its fault")
    fired: dict[str, tuple[float, float, str]] = {}
    with ExitStack() as faults:
        began_s, began_ms = clock.monotonic_s(), clock.now_ms()
        faults.enter_context(drill.fault(stage))
        while len(fired) < len(drill.alerts):
            for alert in stage.monitor.alerts():
                if alert.name in drill.alerts and alert.state == FIRING:
                    held_s = max(0.0, alert.since.timestamp() - began_ms / 1000)
                    now_s = clock.monotonic_s() - began_s
                    fired.setdefault(alert.name, (held_s, now_s, alert.runbook))
            if clock.monotonic_s() - began_s > FIRE_S:
                break
            blocking_sleep_s(LOOK_S)
        ended_s = clock.monotonic_s()
    # Raised behind the fault, which ends in any case: the next drill has the same stage.
    if missing := sorted(set(drill.alerts) - set(fired)):
        raise AlertSilent(f"not fired in {FIRE_S:.0f} s: {missing} fault={drill.what}")
    ended = _await(stage, drill, END_S, "behind its fault")
    return [
        Fired(name, drill.what, held_s, fired_s, drill.divisor, ended[name] - ended_s, page)
        for name, (held_s, fired_s, page) in fired.items()
    ]


def _await(stage: AlertStage, drill: AlertDrill, wait_s: float, when: str) -> dict[str, float]:
    """The moment at which each of the drill's alerts was seen to be over."""
    clock = SystemClock()
    deadline_s, ended = clock.monotonic_s() + wait_s, dict[str, float]()
    while True:
        active = {one.name for one in stage.monitor.alerts()} & set(drill.alerts)
        for name in set(drill.alerts) - active - ended.keys():
            ended[name] = clock.monotonic_s()
        if not active:
            return ended
        if clock.monotonic_s() > deadline_s:
            raise AlertSilent(f"not over in {wait_s:.0f} s {when}: {sorted(active)}")
        blocking_sleep_s(LOOK_S)


def drills_of(names: Sequence[str]) -> list[AlertDrill]:
    """Those in which one of the alerts fires; all without names."""
    return [one for one in DRILLS if not names or set(names) & set(one.alerts)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="ALERT")
    options = parser.parse_args()
    missing = why_no_promtool()
    if missing is not None:
        print(f"alerts: {missing}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as directory:
        fired, silent = run_drills(Path(directory), drills_of(options.only))
    print_table("alerts, each by its fault", COLUMNS, [one.cells() for one in fired])
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
