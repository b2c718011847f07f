"""The demo's own process: reads the command line, plays the story, says how it ended.

`python -m tools.demo` starts it in a process group of its own; see there.
"""

import argparse
import os
import signal
import stat
import sys
import threading
from pathlib import Path
from types import FrameType, ModuleType
from typing import NoReturn

from rich.console import Console

from tools.demo.flights import TOTAL
from tools.demo.phases import Phases
from tools.demo.places import BadDirectory, Places, demo_places
from tools.java import why_no_java

DESCRIPTION = "Flights of 2013 through a broker, Kafka's protocol and Spark, each one checked."

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def main() -> int:
    options = _options()
    console = Console(highlight=False)
    if reason := why_no_java():
        return _fail(reason)
    signal.signal(signal.SIGINT, _interrupt)
    if os.getpid() == os.getpgid(0) and stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode):
        threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _play(options, Phases(console))
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BadDirectory as error:
        return _fail(str(error), USAGE)
    except Exception as error:  # noqa: BLE001 - whatever failed, people get one line
        return _fail(_one_line(error))
    return OK


def _play(options: argparse.Namespace, phases: Phases) -> None:
    if options.check is not None:
        places = Places(options.check.absolute(), is_kept=True)
        places.read_flight_count()
        _story().check_kept(places, phases)
        return
    with demo_places(options.dir, keep=options.keep) as places:
        _story().run_demo(places, phases, options.flights, drop_one=options.drop_one)


def _story() -> ModuleType:
    """Imported late: Spark and matplotlib take seconds, which wrong usage should not wait for."""
    from tools.demo import story

    return story


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.demo", description=DESCRIPTION)
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


def _one_line(error: Exception) -> str:
    text = (str(error).strip().splitlines() or [""])[0]
    known = type(error).__module__.startswith(("tools.", "logstore."))
    return text if known else f"{type(error).__name__}: {text}"


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _end_with_parent() -> None:
    """Take the whole group along when the process that watches it is killed."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.killpg(0, signal.SIGKILL)


def _fail(text: str, code: int = FAILED) -> int:
    print(f"demo: {text}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
