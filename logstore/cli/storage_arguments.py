"""Arguments of commands that open a log by its URL: where it is, and `storage.*` settings."""

import argparse

from logstore.cli.command import setting
from logstore.cli.environment import add_url_argument, environment_settings
from logstore.config.kinds import unknown_name
from logstore.config.storage import STORAGE_SETTINGS


def add_url(parser: argparse.ArgumentParser) -> None:
    add_url_argument(parser)
    parser.add_argument(
        "--set",
        type=setting,
        action="append",
        default=[],
        dest="storage",
        metavar="NAME=VALUE",
        help=f"setting of the store; may be repeated: {', '.join(sorted(STORAGE_SETTINGS))}",
    )


def storage_of(options: argparse.Namespace) -> dict[str, str]:
    """The settings given, by the environment too; `--set` prevails.

    Raises `Invalid` for one that does not exist or cannot be.
    """
    for name, text in options.storage:
        if name not in STORAGE_SETTINGS:
            raise unknown_name(name, STORAGE_SETTINGS)
        STORAGE_SETTINGS[name].parse(text)
    given = environment_settings()
    ambient = {name: given[name].text for name in STORAGE_SETTINGS if name in given}
    return {**ambient, **dict(options.storage)}
