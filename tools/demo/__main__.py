"""`make demo`: a broker, a Kafka client, two Spark streams, a check of every record, a picture.

    python -m tools.demo [--dir DIR] [--keep] [--flights N] [--drop-one]
    python -m tools.demo --check DIR

Exit codes: 0 every flight is there exactly once; 1 one is not, or something failed; 2 wrong usage;
130 interrupted. Nothing is left running, however it ends.
"""

import argparse
import signal
import sys
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rich.console import Console

from tools.demo.flights import TOTAL, DataMissing, FlightId, read_flights, read_ids
from tools.demo.phases import Phases
from tools.demo.places import IVY, BadDirectory, Places, demo_places
from tools.java import why_no_java

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
CATCH_UP_TIMEOUT_S = 600.0


class NotAllThere(Exception):
    """The check found flights missing, doubled or out of order; the text says which."""


def main() -> int:
    options = _options()
    console = Console(highlight=False)
    if reason := why_no_java():
        return _fail(reason)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        if options.check is not None:
            _check_kept(options.check.absolute(), Phases(console))
        else:
            with demo_places(options.dir, keep=options.keep) as places:
                _run(places, Phases(console), options.flights, drop_one=options.drop_one)
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BadDirectory as error:
        return _fail(str(error), USAGE)
    except (DataMissing, NotAllThere) as error:
        return _fail(str(error))
    except Exception as error:  # noqa: BLE001 - whatever failed, people get one line
        return _fail(f"{type(error).__name__}: {_first_line(error)}")
    return OK


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.demo", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--dir", type=Path, help="a new directory for everything, to be kept")
    parser.add_argument("--keep", action="store_true", help="keep the temporary directory")
    parser.add_argument(
        "--flights", type=int, default=TOTAL, metavar="N", help=f"only the first N of {TOTAL:,}"
    )
    parser.add_argument(
        "--drop-one",
        action="store_true",
        help="do not send one flight of them: shows that the check notices",
    )
    parser.add_argument(
        "--check", type=Path, metavar="DIR", help="only look again at a demo kept in DIR"
    )
    options = parser.parse_args()
    if not 1 <= options.flights <= TOTAL:
        parser.error(f"--flights is a number from 1 to {TOTAL}")
    return options


def _run(places: Places, phases: Phases, count: int, *, drop_one: bool) -> None:
    # Spark and the client take a while to import: usage errors should not wait for them.
    from tools.demo.broker_process import running_broker
    from tools.demo.picture import draw
    from tools.demo.produce import create_topic, produce
    from tools.demo.queries import log_ends, running_queries, wait_for
    from tools.demo.spark import has_fetched, spark_session
    from tools.demo.summary import print_next, print_summary, stored

    console = phases.console
    console.print(f"[bold]{count:,} flights through a log in {places.log}[/bold]")
    places.write_flight_count(count)
    left_out = next(islice(read_ids(count), count // 2, None)) if drop_one else None
    if not has_fetched(IVY):
        console.print("  Spark fetches Delta's jars (10 MB) first; the next run finds them")
    with running_broker(places.log, places.broker_lines) as address:
        create_topic(address)
        console.print(f"  a broker listens on {address}")
        with phases.phase("starting Spark"):
            session = spark_session(IVY, places.spark_lines)
            spark = session.__enter__()
    del spark, draw, produce, log_ends, running_queries, wait_for, print_next, print_summary, stored
    del left_out


def _check_kept(root: Path, phases: Phases) -> None: ...


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _fail(text: str, code: int = FAILED) -> int:
    print(f"demo: {text}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
