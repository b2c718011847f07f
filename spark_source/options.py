"""Options of `format("logstore")`: read, checked, and refused with what to write instead.

Names and meanings are those of Spark's Kafka source wherever it has the option. Pure.
"""

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NoReturn

from logstore.errors import Invalid
from logstore.location import parse_location
from logstore.objects.s3_options import S3Options

EARLIEST = -2
LATEST = -1
"""What an offset in JSON means that is none, as in Spark's Kafka source."""

_WORDS = {"earliest": EARLIEST, "latest": LATEST}

KNOWN = (
    "path",
    "url",
    "subscribe",
    "startingOffsets",
    "endingOffsets",
    "includeHeaders",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minPartitions",
)
NOT_YET = (
    "assign",
    "commitGroup",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribePattern",
)
_SPELT = {name.lower(): name for name in (*KNOWN, *NOT_YET)}


Storage = tuple[tuple[str, str], ...]
STORAGE_PREFIX = "storage."


class Mode(Enum):
    BATCH = "batch"
    STREAM = "stream"


@dataclass(frozen=True, slots=True)
class OffsetChoice:
    """Where to begin or to end: `given` by topic and partition, `default` where it says nothing.

    Offsets may be `EARLIEST` or `LATEST`.
    """

    default: int
    given: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """`url` is absolute: executors may run in another directory than the driver.

    `storage` are the `storage.*` settings, which say how to reach a bucket.
    """

    url: str
    storage: Storage
    topics: tuple[str, ...]
    starting: OffsetChoice
    ending: OffsetChoice
    include_headers: bool
    fail_on_data_loss: bool
    offsets_max: int | None
    bytes_max: int | None
    partitions_min: int | None


def parse_options(options: Mapping[str, str], mode: Mode) -> ReadOptions:
    """Raises `Invalid`, naming the option and what it may be."""
    given = {name.lower(): str(value) for name, value in options.items()}
    _check_names(given)
    topics = _topics(given)
    if mode is Mode.STREAM and "endingoffsets" in given:
        raise Invalid("option endingOffsets is for batch reads only; a stream has no end")
    starting = _offset_choice(given, "startingOffsets", topics, _default_start(mode))
    ending = _offset_choice(given, "endingOffsets", topics, LATEST)
    if mode is Mode.BATCH:
        _refuse(starting, LATEST, "startingOffsets", "a batch cannot start at latest (-1)")
    _refuse(ending, EARLIEST, "endingOffsets", "nothing can end at earliest (-2)")
    return ReadOptions(
        url=_url(given),
        storage=_storage(given),
        topics=topics,
        starting=starting,
        ending=ending,
        include_headers=includes_headers(given),
        fail_on_data_loss=_boolean(given, "failOnDataLoss", default=True),
        offsets_max=_positive(given, "maxOffsetsPerTrigger"),
        bytes_max=_positive(given, "maxBytesPerTrigger"),
        partitions_min=_positive(given, "minPartitions"),
    )


def includes_headers(options: Mapping[str, str]) -> bool:
    """Whether the schema has the column `headers`. Raises `Invalid`."""
    given = {name.lower(): str(value) for name, value in options.items()}
    return _boolean(given, "includeHeaders", default=False)


def _check_names(given: Mapping[str, str]) -> None:
    for name in sorted(given):
        if name.startswith(STORAGE_PREFIX):
            continue
        spelt = _SPELT.get(name)
        if name.startswith("kafka."):
            raise Invalid(
                f"option {name} has no meaning here: the log is read from its objects, not from "
                "brokers; remove it, and give the log's directory as path"
            )
        if spelt in NOT_YET:
            instead = "; name the topics with subscribe" if _chooses_topics(spelt) else ""
            raise Invalid(f"option {spelt} is not there yet{instead}")
        if spelt is None:
            close = difflib.get_close_matches(name, [known.lower() for known in KNOWN], 1, 0.5)
            near = f"did you mean {_SPELT[close[0]]}? " if close else ""
            raise Invalid(f"unknown option: name={name}; {near}known: {', '.join(KNOWN)}")


def _chooses_topics(name: str) -> bool:
    return name in ("assign", "subscribePattern")


def _url(given: Mapping[str, str]) -> str:
    found = {given[name] for name in ("path", "url") if given.get(name)}
    if len(found) > 1:
        raise Invalid(f"options path and url differ: {' and '.join(sorted(found))}; give one")
    if not found:
        raise Invalid(
            "option path is missing: the URL of the log, a directory or s3://BUCKET/PREFIX"
        )
    url = found.pop()
    return parse_location(url).url


def _storage(given: Mapping[str, str]) -> Storage:
    settings = {name: text for name, text in given.items() if name.startswith(STORAGE_PREFIX)}
    S3Options.of(settings, environment={})  # raises for what cannot be
    return tuple(sorted(settings.items()))


def _topics(given: Mapping[str, str]) -> tuple[str, ...]:
    names = [name.strip() for name in given.get("subscribe", "").split(",")]
    topics = tuple(sorted({name for name in names if name}))
    if not topics:
        raise Invalid('option subscribe is missing: topics to read, such as "orders,returns"')
    return topics


def _default_start(mode: Mode) -> int:
    return EARLIEST if mode is Mode.BATCH else LATEST


def _offset_choice(
    given: Mapping[str, str], name: str, topics: tuple[str, ...], default: int
) -> OffsetChoice:
    text = given.get(name.lower())
    if text is None:
        return OffsetChoice(default)
    if (word := text.strip().lower()) in _WORDS:
        return OffsetChoice(_WORDS[word])
    chosen = _offsets_of_json(name, text)
    if unwanted := sorted(set(chosen) - set(topics)):
        raise Invalid(
            f"option {name} names topics that are not subscribed: {', '.join(unwanted)}; "
            f"subscribed: {', '.join(topics)}"
        )
    return OffsetChoice(LATEST if name == "endingOffsets" else EARLIEST, chosen)


def _offsets_of_json(name: str, text: str) -> dict[str, dict[int, int]]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        _bad_offsets(name, text, error)
    if not isinstance(parsed, dict) or not all(isinstance(of, dict) for of in parsed.values()):
        _bad_offsets(name, text)
    chosen: dict[str, dict[int, int]] = {}
    for topic, offsets in parsed.items():
        chosen[topic] = {}
        for partition, offset in offsets.items():
            if not partition.isdecimal() or type(offset) is not int or offset < EARLIEST:
                _bad_offsets(name, text)
            chosen[topic][int(partition)] = offset
    return chosen


def _bad_offsets(name: str, text: str, error: ValueError | None = None) -> NoReturn:
    raise Invalid(
        f"option {name} is neither earliest, latest nor JSON of offsets: {text}; "
        'write {"topic":{"0":23,"1":-2}}, where -2 is earliest and -1 latest'
    ) from error


def _refuse(choice: OffsetChoice, offset: int, name: str, why: str) -> None:
    given = [of for offsets in choice.given.values() for of in offsets.values()]
    if offset in given or choice.default == offset:
        raise Invalid(f"option {name}: {why}")


def _boolean(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    match given.get(name.lower(), str(default)).strip().lower():
        case "true":
            return True
        case "false":
            return False
        case text:
            raise Invalid(f"option {name} is neither true nor false: {text}")


def _positive(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise Invalid(f"option {name} is not a whole number above 0: {text}")
    return int(text)
