"""The demo's own process: reads the command line, plays the story, says how it ended.

`python -m tools.demo` starts it in a process group of its own; see there.
"""

import argparse
import os
import signal
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import NoReturn

from rich.console import Console

from logstore.cli.command import setting
from logstore.cli.storage_arguments import storage_of
from logstore.errors import Invalid
from logstore.wiring.initialise import check_arguments
from tools.demo.demo_log import DemoLog
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
        places.read_facts()
        _story().check_kept(places, phases)
        return
    if options.local_s3:
        _fetch_servers(phases)
    with (
        demo_places(options.dir, keep=options.keep) as places,
        _log(options, places, phases) as log,
    ):
        _story().run_demo(places, log, phases, options.flights, drop_one=options.drop_one)


def _fetch_servers(phases: Phases) -> None:
    from tools.demo.local_s3 import fetch_servers

    with phases.phase("get versitygw and DynamoDB Local"):
        fetch_servers()


@contextmanager
def _log(options: argparse.Namespace, places: Places, phases: Phases) -> Iterator[DemoLog]:
    if options.local_s3:
        from tools.demo.local_s3 import local_s3

        with ExitStack() as stack:
            with phases.phase("start versitygw and DynamoDB Local"):
                log = stack.enter_context(local_s3(places.root))
            yield log
    elif options.url is not None:
        yield DemoLog(options.url, dict(options.storage), options.registry)
    else:
        yield DemoLog.in_directory(places.log)


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
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--url", help="the log's place, such as s3://BUCKET/PREFIX")
    where.add_argument(
        "--local-s3",
        action="store_true",
        help="in a bucket of versitygw, with DynamoDB Local; both run while the demo does",
    )
    parser.add_argument("--registry", metavar="URL", help="of the log at --url: dynamodb://TABLE")
    parser.add_argument(
        "--set",
        type=setting,
        action="append",
        default=[],
        dest="storage",
        metavar="NAME=VALUE",
        help="how to reach the bucket, as in storage.region=eu-west-1; may be repeated",
    )
    options = parser.parse_args()
    if reason := _why_wrong(options):
        parser.error(reason)
    return options


def _why_wrong(options: argparse.Namespace) -> str | None:
    if not 1 <= options.flights <= TOTAL:
        return f"--flights is a number from 1 to {TOTAL}"
    if options.url is None:
        if options.registry or options.storage:
            return "--registry and --set are of the log at --url"
        return None
    try:
        check_arguments(options.url, options.registry, storage_of(options))
    except Invalid as error:
        return str(error)
    return None


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
