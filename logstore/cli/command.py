"""The type of a command, and the kinds of argument that commands share.

A package registers its commands in the entry point group `logstore.commands`, each a `Command`. The
module that holds it is imported for `logstore --help`: it imports nothing heavy, `configure` and
`run` may.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from logstore.cli.broker_access import add_command_config

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
"""Exit codes of every command."""

PORT_MAX = 65535
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


@dataclass(frozen=True, slots=True)
class Command:
    """`run` returns an exit code, or raises a `LogstoreError` whose text says what to do."""

    summary: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


@dataclass(frozen=True, slots=True)
class BootstrapAddress:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def addresses(text: str) -> list[BootstrapAddress]:
    """`HOST:PORT[,HOST:PORT…]`, IPv6 hosts in brackets: what Kafka calls bootstrap servers."""
    return [address(part.strip()) for part in text.split(",") if part.strip()] or [address(text)]


def address(text: str) -> BootstrapAddress:
    host, colon, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not colon or not bare or not port.isascii() or not port.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    if int(port) > PORT_MAX:
        raise argparse.ArgumentTypeError(f"port {port} is above {PORT_MAX}")
    return BootstrapAddress(bare, int(port))


def add_broker_options(parser: argparse.ArgumentParser, *, is_action: bool = False) -> None:
    """`--bootstrap`, `--command-config`, `--json`: of a command or its action, either will do."""
    parser.add_argument(
        "--bootstrap",
        type=addresses,
        default=argparse.SUPPRESS if is_action else DEFAULT_BOOTSTRAP,
        metavar="HOST:PORT",
        help=f"brokers to connect to, tried in order (default {DEFAULT_BOOTSTRAP})",
    )
    add_command_config(parser, is_action=is_action)
    parser.add_argument(
        "--json",
        action="store_true",
        default=argparse.SUPPRESS if is_action else False,
        help="print JSON",
    )


def setting(text: str) -> tuple[str, str]:
    """`key=value`; the value may be empty and may hold more equal signs."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key.strip(), value


def whole_number(text: str) -> int:
    """A whole number, not below 0."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def positive_number(text: str) -> int:
    number = whole_number(text)
    if number == 0:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
