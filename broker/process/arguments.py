"""Command line, environment and file of a broker; `logstore serve` takes the same."""

import argparse
from pathlib import Path

from broker.process.given import add_flag, add_sources, given_settings
from broker.process.serve import ServeSettings
from logstore.cli.environment import SETTINGS
from logstore.config import flags, printed
from logstore.config.broker import BROKER_SETTINGS, RETENTION_MS, BrokerSettings
from logstore.config.kinds import INT_MAX
from logstore.config.sources import Given
from logstore.errors import Invalid

PLACE = "[NAME://]HOST:PORT"
_RETENTIONS = ("log.retention.minutes", "log.retention.hours")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags without a default: `settings_of` looks for what they do not give."""
    add_flag(parser, "--url", flags.URL)
    add_flag(parser, "--broker", flags.BROKER, metavar="N")
    add_flag(parser, "--listen", flags.LISTEN, metavar=PLACE, action="append")
    add_flag(parser, "--advertise", flags.ADVERTISE, metavar=PLACE, action="append")
    add_flag(parser, "--rack", flags.RACK)
    add_flag(parser, "--http", flags.HTTP, metavar="HOST:PORT")
    add_flag(parser, "--log-format", flags.LOG_FORMAT, choices=flags.LOG_FORMATS)
    add_flag(parser, "--state-dir", flags.STATE_DIR, metavar="DIR")
    add_sources(parser)


def add_print_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--print-config",
        nargs="?",
        const=printed.TEXT,
        choices=printed.FORMATS,
        help="print all settings with their origins as text, toml or json, and start nothing",
    )


def settings_of(arguments: argparse.Namespace) -> ServeSettings:
    """Raises `Invalid`, one line for the user."""
    given = given_settings(arguments)
    texts = {name: given[name].text if name in given else "" for name in flags.FLAG_SETTINGS}
    if not texts[flags.URL]:
        raise Invalid(
            "no log is named: give --url, LOGSTORE_URL in the environment, or url in a file"
        )
    return ServeSettings(
        url=texts[flags.URL],
        broker=_number(texts[flags.BROKER] or flags.FLAG_SETTINGS[flags.BROKER].default),
        listen=_items(texts[flags.LISTEN]),
        advertise=_items(texts[flags.ADVERTISE]),
        rack=texts[flags.RACK],
        http=texts[flags.HTTP],
        log_format=texts[flags.LOG_FORMAT] or flags.FLAG_SETTINGS[flags.LOG_FORMAT].default,
        state_directory=Path(texts[flags.STATE_DIR]) if texts[flags.STATE_DIR] else None,
        settings=_broker_settings(given),
    )


def printed_settings(arguments: argparse.Namespace, style: str) -> str:
    """All settings, in one of `printed.FORMATS`. Raises `Invalid`."""
    given = given_settings(arguments)
    settings = _broker_settings(given)
    derived = {}
    if RETENTION_MS in settings.given and RETENTION_MS not in given:
        origin = next(name for name in _RETENTIONS if name in given)
        derived[RETENTION_MS] = settings.given[RETENTION_MS], origin
    return printed.render(printed.effective(SETTINGS, given, derived), style)


def _number(text: str) -> int | None:
    if text == flags.AUTO:
        return None
    if not (text.isascii() and text.isdecimal() and int(text) <= INT_MAX):
        raise Invalid(f"broker is a number from 0 up, or {flags.AUTO}: {text!r}")
    return int(text)


def _broker_settings(given: Given) -> BrokerSettings:
    own = {name: value for name, value in given.items() if name in BROKER_SETTINGS}
    hidden = [name for name, value in own.items() if value.is_hidden]
    return BrokerSettings({name: value.text for name, value in own.items()}, hidden=hidden)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
