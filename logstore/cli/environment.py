"""Settings of the environment, for commands: variables `LOGSTORE_…`, and the files they name."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from logstore.config.broker import BROKER_SETTINGS
from logstore.config.flags import FLAG_SETTINGS, URL
from logstore.config.kinds import Setting
from logstore.config.listener_settings import SettingsByName
from logstore.config.sources import Given, from_environment, variable_of

SETTINGS: Mapping[str, Setting] = SettingsByName({**FLAG_SETTINGS, **BROKER_SETTINGS})
"""All that a broker process takes. One environment may serve brokers and other commands."""


def environment_settings(environment: Mapping[str, str] | None = None) -> Given:
    """Raises `InvalidConfig` for a variable that no setting has, and for its value."""
    return from_environment(
        SETTINGS, os.environ if environment is None else environment, _read_text
    )


def environment_url() -> str | None:
    """The log that `LOGSTORE_URL` names."""
    return os.environ.get(variable_of(URL)) or None


def add_url_argument(parser: argparse.ArgumentParser) -> None:
    """`--url`, by default the log that the environment names."""
    default = environment_url()
    parser.add_argument(
        "--url",
        required=default is None,
        default=default,
        metavar="URL",
        help=f"the log: a directory, or s3://BUCKET/PREFIX (default: {variable_of(URL)} of the "
        "environment)",
    )


def _read_text(path: str) -> str:
    return Path(path).read_text()
