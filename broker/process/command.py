"""`logstore serve`: what `python -m broker` does, as a command of `logstore`."""

import argparse

from logstore.cli.command import Command
from logstore.errors import Invalid


def configure(parser: argparse.ArgumentParser) -> None:
    from broker.process.arguments import add_arguments

    add_arguments(parser)
    parser.set_defaults(fail=parser.error)


def run(options: argparse.Namespace) -> int:
    from broker.process.arguments import settings_of
    from broker.process.serve import serve

    try:
        settings = settings_of(options)
    except Invalid as error:
        options.fail(str(error))
        raise
    return serve(settings)


COMMAND = Command("run a broker of one log in this process", configure, run)
