"""`python -m broker`: a broker of one log in this process."""

import argparse
import sys

from broker.process.arguments import add_arguments, settings_of
from broker.process.serve import USAGE, serve
from logstore.errors import Invalid


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m broker", description=__doc__)
    add_arguments(parser)
    try:
        settings = settings_of(parser.parse_args(arguments))
    except Invalid as error:
        sys.stderr.write(f"logstore: {error}\n")
        return USAGE
    return serve(settings)


if __name__ == "__main__":
    sys.exit(main())
