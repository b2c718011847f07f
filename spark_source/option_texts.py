"""Texts of options, as Spark gives them: read, checked, refused with what to write."""

import re
from collections.abc import Mapping

from logstore.errors import Invalid
from logstore.objects.s3_options import S3Options
from logstore.reading.planning.tasks import Storage
from logstore.stores.location import parse_location

BOOTSTRAP = "kafka.bootstrap.servers"
STORAGE_PREFIX = "storage."
_UNIT_MS = {
    "us": 0.001,
    "ms": 1,
    "": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


def lowered(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): str(value) for name, value in options.items()}


def url_of(given: Mapping[str, str]) -> str:
    urls = {given[name] for name in ("path", "url") if given.get(name)}
    if len(urls) > 1:
        raise Invalid(f"options path and url differ: {' and '.join(sorted(urls))}; give one")
    if not urls:
        instead = "; kafka.bootstrap.servers does not say it" if BOOTSTRAP in given else ""
        raise Invalid(
            "option path is missing: the log is read from its objects, give their URL, a directory "
            f"or s3://BUCKET/PREFIX, as `logstore serve --url` has it{instead}"
        )
    return parse_location(urls.pop()).url


def storage_of(given: Mapping[str, str]) -> Storage:
    settings = {name: text for name, text in given.items() if name.startswith(STORAGE_PREFIX)}
    S3Options.of(settings, environment={})  # raises for what cannot be
    return tuple(sorted(settings.items()))


def boolean_of(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    match given.get(name.lower(), str(default)).strip().lower():
        case "true":
            return True
        case "false":
            return False
        case text:
            raise Invalid(f"option {name} is neither true nor false: {text}; give one of them")


def positive_of(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise Invalid(
            f"option {name} is not a whole number above 0: {text!r}; remove it for no limit"
        )
    return int(text)


def duration_s_of(given: Mapping[str, str], name: str, default: str) -> float:
    """As Spark reads durations: a whole number, of milliseconds or with a unit."""
    text = given.get(name.lower(), default).strip().lower()
    number_and_unit = re.fullmatch(r"([0-9]{1,15})\s*([a-z]*)", text)
    unit_ms = _UNIT_MS.get(number_and_unit[2]) if number_and_unit else None
    if number_and_unit is None or unit_ms is None:
        raise Invalid(f"option {name} is not a duration: {text}; write 500ms, 30s, 15m or 1h")
    return int(number_and_unit[1]) * unit_ms / 1000
