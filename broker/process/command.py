"""`logstore serve`: what `python -m broker` does, as a command of `logstore`."""

import argparse
import sys

from logstore.cli.command import OK, Command
from logstore.errors import Invalid


def configure(parser: argparse.ArgumentParser) -> None:
    from broker.process.arguments import add_arguments, add_print_config

    add_arguments(parser)
    add_print_config(parser)
    parser.set_defaults(fail=parser.error)


def run(options: argparse.Namespace) -> int:
    from broker.process.arguments import printed_settings, settings_of
    from broker.process.serve import serve

    try:
        if options.print_config:
            sys.stdout.write(printed_settings(options, options.print_config))
            return OK
        settings = settings_of(options)
    except Invalid as error:
        options.fail(str(error))
        raise
    return serve(settings)


COMMAND = Command("run a broker of one log in this process", configure, run)
