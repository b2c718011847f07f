"""`logstore dev`: a cluster of broker processes on this machine, until interrupted.

0    stopped in good order by the first signal
1    a broker refused to start, or did not stop in good order
130  interrupted a second time: every broker was killed, which loses nothing acknowledged
"""

import argparse
import random
import signal
import sys
from pathlib import Path

from broker.process.given import add_sources
from logstore.cli.command import (
    FAILED,
    INTERRUPTED,
    PORT_MAX,
    Command,
    positive_number,
    whole_number,
)

BROKERS = 3
PORT = 9092
HOST = "127.0.0.1"
COMPACT_EVERY = "1m"
"""Nothing else would ever move records into tables here."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--brokers",
        type=positive_number,
        default=BROKERS,
        metavar="N",
        help=f"how many broker processes (default {BROKERS})",
    )
    parser.add_argument(
        "--url", required=True, help="the log: a directory, such as ./data, or s3://BUCKET/PREFIX"
    )
    parser.add_argument(
        "--port",
        type=whole_number,
        default=PORT,
        metavar="P",
        help=f"of broker 1; the others have P+1, P+2, … (default {PORT}; 0: any that are free)",
    )
    parser.add_argument(
        "--host", default=HOST, help=f"address to listen on and to advertise (default {HOST})"
    )
    parser.add_argument(
        "--racks",
        default="",
        metavar="A,B,…",
        help="racks of the brokers, in turn",
    )
    parser.add_argument("--state-dir", type=Path, metavar="DIR", help="as for logstore serve")
    parser.add_argument(
        "--http",
        dest="http_port",  # `http` is a setting of each broker, read from the others' sources
        type=whole_number,
        metavar="P",
        help="serve metrics, health and the console: broker 1 on this port, the others on P+1, "
        "P+2, … (default: not served; 0: any that are free)",
    )
    add_sources(parser)
    parser.set_defaults(fail=parser.error)


def run(options: argparse.Namespace) -> int:
    import asyncio

    for first in (options.port, options.http_port):
        if first and first + options.brokers - 1 > PORT_MAX:
            options.fail(f"ports {first} and up: the last would be above {PORT_MAX}")
    return asyncio.run(_run(options))


async def _run(options: argparse.Namespace) -> int:
    import asyncio

    from broker.process.fleet import Fleet, members_of
    from logstore.ports.clock import SystemClock

    flags = {"--state-dir": options.state_dir, "--config": options.config}
    members = members_of(
        options.brokers,
        url=options.url,
        host=options.host,
        port=options.port,
        http=options.http_port,
        racks=[rack.strip() for rack in options.racks.split(",") if rack.strip()],
        more=[part for pair in _pairs(options) for part in ("--set", pair)],
        flags={flag: str(value) for flag, value in flags.items() if value is not None},
    )
    fleet = Fleet(members, SystemClock(), random.Random(), _say)
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, fleet.stop)
    code = await fleet.run()
    if fleet.is_killed:
        _say("logstore: interrupted; every broker was killed")
        return INTERRUPTED
    _say("logstore: all brokers stopped" if code != FAILED else "logstore: the brokers ended")
    return code


def _pairs(options: argparse.Namespace) -> list[str]:
    """Settings of every broker: compaction too, unless the user has decided about it."""
    from broker.process.given import given_settings
    from logstore.config.compaction_interval import EVERY
    from logstore.errors import Invalid

    try:
        is_given = EVERY in given_settings(options)
    except Invalid as error:
        options.fail(str(error))
        raise
    return options.pairs if is_given else [*options.pairs, f"{EVERY}={COMPACT_EVERY}"]


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


COMMAND = Command("run several brokers of one log on this machine", configure, run)
