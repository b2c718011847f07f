"""Values that a command line, the environment and a file give to settings. Imports little.

`arguments.py` makes a broker of them, `health_command.py` looks for its HTTP address.
"""

import argparse
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from logstore.cli.environment import SETTINGS, environment_settings
from logstore.config import flags
from logstore.config.kinds import InvalidConfig
from logstore.config.sources import CONFIG_VARIABLE, Given, GivenValue, from_pairs, from_toml
from logstore.errors import Invalid


def add_flag(parser: argparse.ArgumentParser, flag: str, name: str, **more: Any) -> None:
    """The flag of a setting, without a default: other sources are looked at first."""
    setting = flags.FLAG_SETTINGS[name]
    text = setting.documentation.replace("%", "%%")
    default = f" Default: {setting.default}." if setting.default else ""
    parser.add_argument(flag, dest=name, default=None, help=text + default, **more)


def add_sources(parser: argparse.ArgumentParser) -> None:
    """`--config` and `--set`."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE.toml",
        help=f"settings in a file (default: {CONFIG_VARIABLE} of the environment)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="pairs",
        metavar="NAME=VALUE",
        help="one setting; may be repeated; prevails over variables LOGSTORE_… of the environment, "
        "which prevail over --config",
    )


def given_settings(arguments: argparse.Namespace) -> Given:
    """Values that are not defaults, with their origins. Raises `Invalid`."""
    ambient = environment_settings()
    path = arguments.config or os.environ.get(CONFIG_VARIABLE)
    filed = from_toml(SETTINGS, _read_toml(Path(path)), str(path)) if path else {}
    paired = from_pairs(SETTINGS, arguments.pairs)
    return {**filed, **ambient, **paired, **dict(_flags(arguments))}


def _flags(arguments: argparse.Namespace) -> Iterator[tuple[str, GivenValue]]:
    for name, setting in flags.FLAG_SETTINGS.items():
        value: str | list[str] | None = getattr(arguments, name, None)
        if value is None:
            continue
        text = ",".join(value) if isinstance(value, list) else value
        flag = f"--{name.replace('.', '-')}"
        try:
            setting.parse(text)
        except InvalidConfig as error:
            raise InvalidConfig(f"{error}, in {flag}") from error
        yield name, GivenValue(text, flag)


def _read_toml(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise Invalid(f"cannot read the settings of {path}: {error}") from error
