"""Command line of a broker; `logstore serve` takes the same."""

import argparse
import tomllib
from pathlib import Path
from typing import Any

from broker.network.listeners import DEFAULT_LISTEN
from broker.process.log_lines import FORMATS, TEXT
from broker.process.serve import ServeSettings
from logstore.config.broker import read_settings
from logstore.errors import Invalid


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--url", required=True, help="the log: a directory, such as ./data, or s3://BUCKET/PREFIX"
    )
    parser.add_argument(
        "--broker", type=int, default=1, metavar="N", help="number of this broker (default 1)"
    )
    parser.add_argument(
        "--listen",
        action="append",
        default=[],
        metavar="[NAME://]HOST:PORT",
        help=f"where to accept clients; may be repeated (default {DEFAULT_LISTEN}; port 0: any)",
    )
    parser.add_argument(
        "--advertise",
        action="append",
        default=[],
        metavar="[NAME://]HOST:PORT",
        help="the address that clients of a listener get to connect to",
    )
    parser.add_argument("--rack", default="", help="zone this broker is in")
    parser.add_argument(
        "--http",
        default="",
        metavar="HOST:PORT",
        help="where to serve /metrics, /healthz and /readyz (default: nowhere; port 0: any); "
        "every client that reaches it may read them",
    )
    parser.add_argument(
        "--log-format",
        choices=FORMATS,
        default=TEXT,
        help="how log lines on stderr look (default %(default)s)",
    )
    parser.add_argument(
        "--state-dir",
        type=Path,
        metavar="DIR",
        help="where this machine keeps its lock when the log is in a bucket "
        "(default ~/.local/state/logstore)",
    )
    parser.add_argument("--config", type=Path, metavar="FILE.toml", help="settings in a file")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="pairs",
        metavar="NAME=VALUE",
        help="one setting; prevails over --config",
    )


def settings_of(arguments: argparse.Namespace) -> ServeSettings:
    """Raises `Invalid`, one line for the user."""
    if arguments.broker < 0:
        raise Invalid(f"--broker is a number from 0 up: {arguments.broker}")
    return ServeSettings(
        url=arguments.url,
        broker=arguments.broker,
        listen=arguments.listen,
        advertise=arguments.advertise,
        rack=arguments.rack,
        http=arguments.http,
        log_format=arguments.log_format,
        state_directory=arguments.state_dir,
        settings=read_settings(arguments.pairs, _read_toml(arguments.config)),
    )


def _read_toml(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise Invalid(f"cannot read --config {path}: {error}") from error
