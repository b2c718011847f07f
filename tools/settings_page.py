"""Writes docs/settings.md from `logstore.config`.

python -m tools.settings_page
"""

import textwrap
from collections.abc import Iterable
from pathlib import Path

from logstore.config.broker import BROKER_SETTINGS
from logstore.config.changeable import CHANGEABLE
from logstore.config.flags import FLAG_SETTINGS
from logstore.config.kinds import INT_MAX, LONG_MAX, Setting, SettingKind
from logstore.config.process import BY_STORE
from logstore.config.storage import STORAGE_SETTINGS
from logstore.config.topics import BROKER_NAMES, NO_EFFECT, TOPIC_SETTINGS

PAGE = Path(__file__).parent.parent / "docs" / "settings.md"

_HEAD = """# Settings

Made by `python -m tools.settings_page` from `logstore/config`; do not edit. Names are Kafka's where
Kafka has the setting, others begin with `logstore.` or `storage.`. A name that is not here is
refused, and so is a value that a setting does not have.

A broker reads, each prevailing over those before it:

1. `--config FILE.toml`, or the file that `LOGSTORE_CONFIG` names. A name is written with its dots,
   quoted, or as nested tables.
2. Variables `LOGSTORE_…` of the environment: the name without `logstore.`, in capitals, with `_`
   for each dot. `num.partitions` is `LOGSTORE_NUM_PARTITIONS`, `logstore.cache.bytes` is
   `LOGSTORE_CACHE_BYTES`. An empty variable gives nothing. One that no setting has is refused,
   except those that Kubernetes makes for a Service whose name begins with `logstore`.
   `LOGSTORE_…_FILE` names a file that holds the value: a secret, which neither printed settings nor
   Kafka's clients show.
3. `--set NAME=VALUE`, which may be repeated.
4. The flag of a setting, such as `--url`.

`logstore config [--format text|toml|json]`, or `logstore serve --print-config`, prints every
setting with its value, its origin and its effect, and starts nothing. The TOML is a file for
`--config` that gives the same settings. The other commands read `LOGSTORE_URL` and
`LOGSTORE_STORAGE_…`; Python programs and Spark jobs give their options in code.

"""
_FLAGS = """## Of a process

Each has a flag of `logstore serve`: `state.dir` is `--state-dir`. Lists are separated by commas, or
the flag is repeated.

"""
_BROKER = """## Of a broker

Give all brokers of a log the same. Those with a "yes" can be changed while brokers run, of one
broker or of all: `kafka-configs --entity-type brokers`. What is changed prevails over what is given
at a start, and is kept.

"""
_STORAGE = """## Of the store

For a log in a bucket: settings of a broker, `--set` of other commands, options of Spark, `storage=`
of `logstore.open`. A directory needs none.

"""
_TOPIC = """## Of a topic

`logstore topics create NAME --config KEY=VALUE`, `logstore topics alter`, or Kafka's own tools. A
topic that does not say takes the broker's default, where the broker has a setting for it (in
brackets), else the default here.

"""
_IDLE = """## Of a topic, without effect

Taken, kept and shown, so that tools and scripts made for Kafka work; nothing here reads them.

"""
_COLUMNS = ("setting", "kind", "default", "values", "meaning")
_RUNNING = "while running"


def render() -> str:
    topic_defaults = set(BROKER_NAMES.values())
    own = [
        setting
        for name, setting in BROKER_SETTINGS.items()
        if name not in STORAGE_SETTINGS and name not in topic_defaults
    ]
    topics = TOPIC_SETTINGS.values()
    return (
        _HEAD
        + _section(_FLAGS, FLAG_SETTINGS.values())
        + _section(_BROKER, own, is_broker=True)
        + _defaults_of_topics()
        + _section(_STORAGE, STORAGE_SETTINGS.values())
        + _section(_TOPIC, (one for one in topics if NO_EFFECT not in one.documentation))
        + _section(_IDLE, (one for one in topics if NO_EFFECT in one.documentation)).rstrip()
        + "\n"
    )


def _defaults_of_topics() -> str:
    names = ", ".join(f"`{one}`" for one in sorted(CHANGEABLE & set(BROKER_NAMES.values())))
    text = f"Of the defaults of topics below these can be changed while a broker runs: {names}."
    return textwrap.fill(text, 118, break_on_hyphens=False) + "\n\n"


def _section(head: str, settings: Iterable[Setting], *, is_broker: bool = False) -> str:
    lines = sorted(settings, key=lambda setting: setting.name)
    columns = (*_COLUMNS[:4], _RUNNING, _COLUMNS[4]) if is_broker else _COLUMNS
    rows = [columns, ("---",) * len(columns)]
    for setting in lines:
        row = _row(setting)
        changes = "yes" if setting.name in CHANGEABLE else "-"
        rows.append((*row[:4], changes, row[4]) if is_broker else row)
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows) + "\n"


def _row(setting: Setting) -> tuple[str, ...]:
    broker = BROKER_NAMES.get(setting.name) if setting.name in TOPIC_SETTINGS else None
    name = f"`{setting.name}`" + (f" (`{broker}`)" if broker else "")
    default = "-" if setting.default == BY_STORE else f"{_number(setting.default)}"
    meaning = setting.documentation.replace(NO_EFFECT, "").replace("|", "\\|")
    return name, setting.kind.name.lower(), default, _values(setting) or "-", meaning


def _values(setting: Setting) -> str:
    if setting.one_of:
        return ", ".join(setting.one_of)
    least = "" if setting.at_least is None else f"from {_number(setting.at_least)}"
    most = "" if setting.at_most is None else f"to {_number(setting.at_most)}"
    if setting.kind is SettingKind.BOOLEAN:
        return "true, false"
    return " ".join(part for part in (least, most) if part)


def _number(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return {str(LONG_MAX): "2^63 - 1", str(INT_MAX): "2^31 - 1"}.get(text, text)


if __name__ == "__main__":
    PAGE.write_text(render())
