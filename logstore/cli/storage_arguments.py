"""Arguments of commands that open a log by its URL: where it is, and `storage.*` settings."""

import argparse

from logstore.cli.command import setting
from logstore.config.kinds import unknown_name
from logstore.config.storage import STORAGE_SETTINGS


def add_url(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--url", required=True, metavar="URL", help="the log: a directory, or s3://BUCKET/PREFIX"
    )
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
    """The settings given. Raises `Invalid` for one that does not exist or cannot be."""
    for name, text in options.storage:
        if name not in STORAGE_SETTINGS:
            raise unknown_name(name, STORAGE_SETTINGS)
        STORAGE_SETTINGS[name].parse(text)
    return dict(options.storage)
