"""`logstore config`: the settings a broker would start with, each with its origin."""

import argparse
import sys

from logstore.cli.command import OK, Command
from logstore.errors import Invalid


def configure(parser: argparse.ArgumentParser) -> None:
    from broker.process.arguments import add_arguments
    from logstore.config.printed import FORMATS, TEXT

    add_arguments(parser)
    parser.add_argument(
        "--format", choices=FORMATS, default=TEXT, help="of the output (default %(default)s)"
    )
    parser.set_defaults(fail=parser.error)


def run(options: argparse.Namespace) -> int:
    from broker.process.arguments import printed_settings

    try:
        sys.stdout.write(printed_settings(options, options.format))
    except Invalid as error:
        options.fail(str(error))
    return OK


COMMAND = Command("print the settings of a broker, and where each comes from", configure, run)
