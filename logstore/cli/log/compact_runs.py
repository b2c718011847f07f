"""Runs compaction once or periodically, and prints a line per run. Shared by commands."""

import argparse
import json
import signal
import sys
from collections.abc import Callable
from types import FrameType

from logstore.cli.command import FAILED, OK
from logstore.cli.log.compact_arguments import run_options_of
from logstore.cli.log.lifeline import end_with_stdin
from logstore.cli.output import jsonable, print_line, progress
from logstore.cli.storage_arguments import storage_of
from logstore.compaction.compactor import Compactor
from logstore.compaction.decisions.summary import Summary, line_of
from logstore.compaction.leased_rows import Busy
from logstore.compaction.session import Carrier, RunOptions, Watch
from logstore.errors import LogstoreError, Unavailable
from logstore.ports.clock import Clock, SystemClock, blocking_sleep_s

RunOnce = Callable[[RunOptions, Watch], Summary]


def carry_out(options: argparse.Namespace, carrier: Carrier) -> int:
    """Carry out a compaction command, its tasks by `carrier`; the exit code."""
    if options.end_with_stdin:
        end_with_stdin()
    clock = SystemClock()
    compactor = Compactor(options.url, storage_of(options), carrier, clock=clock)
    try:
        return run_in_turn(
            lambda asked, watch: compactor.run(asked, options.wait, watch),
            run_options_of(options),
            every_s=options.every,
            as_json=options.json,
            clock=clock,
        )
    finally:
        compactor.close()


def run_in_turn(
    run: RunOnce,
    options: RunOptions,
    *,
    every_s: float | None,
    as_json: bool,
    clock: Clock,
    sleep_s: Callable[[float], None] = blocking_sleep_s,
) -> int:
    """The exit code of the only run; with `every_s` it ends by an interrupt, or an alarm.

    A transient error (an unreachable store, another run in progress) is printed, and the next run
    follows.
    """
    if every_s is None:
        return _print_summary(_watched(run, options), as_json)
    former = signal.signal(signal.SIGTERM, _interrupt)
    try:
        while True:
            began_s = clock.monotonic_s()
            try:
                _print_summary(_watched(run, options), as_json)
            except (Unavailable, Busy) as error:
                _complain(error)
            sleep_s(max(0.0, began_s + every_s - clock.monotonic_s()))
    finally:
        signal.signal(signal.SIGTERM, former)


def _watched(run: RunOnce, options: RunOptions) -> Summary:
    with progress("tasks done", None) as advance:
        return run(options, lambda step: advance(int(step == "task done")))


def _print_summary(summary: Summary, as_json: bool) -> int:
    text = json.dumps(jsonable(summary.figures())) if as_json else line_of(summary)
    print_line(text)
    sys.stdout.flush()
    for error in summary.errors:
        print_line(f"logstore: {' '.join(error.split())}", to=sys.stderr)
    return FAILED if summary.errors else OK


def _complain(error: LogstoreError) -> None:
    print_line(f"logstore: {' '.join(str(error).split())}", to=sys.stderr)
    sys.stderr.flush()


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    """SIGTERM ends a run in the same way as Ctrl-C."""
    raise KeyboardInterrupt
