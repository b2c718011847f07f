"""The `logstore` command: finds the command asked for, runs it, says how it ended.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. An error is one line on stderr.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import NoReturn

from logstore.cli.command import FAILED, INTERRUPTED, OK, USAGE, Command
from logstore.errors import LogstoreError

GROUP = "logstore.commands"
DISTRIBUTION = "pyspark-logstore"
DESCRIPTION = "A streaming log that speaks Kafka's protocol and lives in object storage."
EPILOG = "`logstore COMMAND --help` tells more of one command."


class Parser(argparse.ArgumentParser):
    """Reports wrong usage in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(argv: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except SystemExit as stop:  # argparse: help, version, wrong usage
        return stop.code if isinstance(stop.code, int) else OK
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except ModuleNotFoundError as error:
        return _say(
            f"needs a module that is not installed: {error.name}; "
            f"install {DISTRIBUTION} with the extra that brings it",
            FAILED,
        )
    except LogstoreError as error:
        return _say(str(error), FAILED)
    return code


def _run(arguments: Sequence[str]) -> int:
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    wanted = arguments[0] if arguments else ""
    # One command's module is enough to run it, however slow or broken another's may be.
    names = [wanted] if wanted in found else sorted(found)
    commands: dict[str, Command] = {name: found[name].load() for name in names}
    chosen = _parser(commands).parse_args(arguments)
    return commands[chosen.command].run(chosen)


def _parser(commands: dict[str, Command]) -> argparse.ArgumentParser:
    parser = Parser(prog="logstore", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"logstore {_version()}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in commands.items():
        command.configure(
            subparsers.add_parser(name, help=command.summary, description=command.summary)
        )
    return parser


def _version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"


def _say(text: str, code: int) -> int:
    print(f"logstore: {' '.join(text.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
