"""The `logstore` command: finds the command asked for, runs it, says how it ended.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. An error is one line on stderr.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import Any, NoReturn

from logstore.cli.command import FAILED, INTERRUPTED, OK, USAGE, Command
from logstore.cli.output import print_line
from logstore.errors import LogstoreError

GROUP = "logstore.commands"
DISTRIBUTION = "pyspark-logstore"
DESCRIPTION = "A streaming log that speaks Kafka's protocol and lives in object storage."
EPILOG = "`logstore COMMAND --help` describes one command."


class Parser(argparse.ArgumentParser):
    """Reports wrong usage in one line, which names the help of the innermost command.

    argparse would have the outermost parser report what an inner one does not know.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown

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
    except BrokenPipeError:  # the reader of our output has ended
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
    commands = {entry.name: entry for entry in entry_points(group=GROUP)}
    wanted = arguments[0] if arguments else ""
    if wanted not in commands:  # help, version, or a mistake: argparse ends the process
        parser_of({name: commands[name].load() for name in sorted(commands)}).parse_args(arguments)
    # One command's module is enough to run it, however slow or broken another's may be.
    command: Command = commands[wanted].load()
    return command.run(parser_of({wanted: command}, wanted).parse_args(arguments))


def parser_of(commands: dict[str, Command], wanted: str | None = None) -> argparse.ArgumentParser:
    """Knows all `commands` by name, and what may follow the one that is `wanted`."""
    parser = Parser(prog="logstore", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"logstore {installed_version()}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in commands.items():
        subparser = subparsers.add_parser(name, help=command.summary, description=command.summary)
        if name == wanted:
            command.configure(subparser)
    return parser


def installed_version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"


def _say(text: str, code: int) -> int:
    print_line(f"logstore: {' '.join(text.split())}", to=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
