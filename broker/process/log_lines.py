"""How log lines look: one line each on stderr (`log_writer.py`), time in UTC.

text   2026-01-31T12:00:00.123Z WARNING broker.connection connection closed: peer=127.0.0.1:5000 ...
json   {"time": "2026-01-31T12:00:00.123Z", "level": "WARNING", "logger": "broker.network.…",
        "message": "connection closed: peer=127.0.0.1:5000 ...", "facts": {"peer": ...}}

In JSON the `name=%s` of a message are facts by name, numbers as numbers; what went wrong is under
`exception`, its lines in one string.
"""

import json
import logging
import re
import time
from collections.abc import Mapping
from typing import Any

from broker.process.log_writer import LogWriter
from logstore.cli.decisions.printable import printable
from logstore.config.flags import LOG_FORMATS

TEXT, JSON = LOG_FORMATS

_PLACE = re.compile(r"(?:(\w+)=)?%(?:%|[-+ #0]*\d*(?:\.\d+)?[a-zA-Z])")

Fact = str | int | float | bool | None


class _Lines(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"


class _TextLines(_Lines):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - as it is called
        """Names that clients choose cannot begin a line of their own, or steer a terminal."""
        line = super().formatMessage(record)
        return printable(line)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - as it is called
        return "\n".join(map(printable, super().formatException(ei).split("\n")))


class _JsonLines(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if facts := _facts(record):
            line["facts"] = facts
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, allow_nan=False, default=str)


def configure_log_lines(form: str = TEXT) -> LogWriter:
    """For a process that is a broker; libraries' own lines only from WARNING on."""
    handler = LogWriter()
    if form == JSON:
        handler.setFormatter(_JsonLines())
    else:
        handler.setFormatter(_TextLines("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ("broker", "logstore"):
        logging.getLogger(name).setLevel(logging.INFO)
    return handler


def _facts(record: logging.LogRecord) -> dict[str, Fact]:
    """Arguments by the name that stands before their place in the message."""
    if not isinstance(record.args, tuple) or not isinstance(record.msg, str):
        return dict(_plain(record.args)) if isinstance(record.args, Mapping) else {}
    names = [match[1] for match in _PLACE.finditer(record.msg) if not match[0].endswith("%%")]
    pairs = zip(names, record.args, strict=False)
    return _plain({name: value for name, value in pairs if name})


def _plain(facts: Mapping[str, object]) -> dict[str, Fact]:
    return {str(name): _fact(value) for name, value in facts.items()}


def _fact(value: object) -> Fact:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and abs(value) < float("inf"):  # JSON has no NaN or infinity
        return value
    return str(value)
