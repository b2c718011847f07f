"""Options of `format("logstore")`: read, checked, and refused with what to write instead.

Names, defaults and meanings are those of Spark's Kafka source wherever it has the option, so that a
job moves over by another format name and a path. What only tunes a Kafka client is accepted and
does nothing; `without_effect` lists it, for one warning.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from logstore.errors import Invalid
from logstore.reading.planning.tasks import Storage
from spark_source.option_texts import (
    BOOTSTRAP,
    STORAGE_PREFIX,
    boolean_of,
    duration_s_of,
    lowered,
    positive_of,
    storage_of,
    url_of,
)
from spark_source.planning.choices import (
    EARLIEST,
    LATEST,
    Choice,
    OffsetChoice,
    TimeChoice,
    TopicChoice,
    offsets_of,
    times_of,
    topics_of_assignment,
    topics_of_list,
    topics_of_pattern,
)

TOPICS: Mapping[str, Callable[[str, str], TopicChoice]] = {
    "subscribe": topics_of_list,
    "subscribePattern": topics_of_pattern,
    "assign": topics_of_assignment,
}
ENDINGS = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
STARTINGS = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
"""Each the strongest first: of several that are given, the others are not looked at."""

STRATEGY = "startingOffsetsByTimestampStrategy"
STREAM_ONLY = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "commitGroup",
)
"""Without effect in a batch."""

TOPIC_ID = "topicId"
"""The life of the one topic that is meant, as `logstore topics describe` shows it."""

PARALLELISM = "parallelism"
"""How many tasks the session's executors can run at once. Spark does not tell a Python source."""

PUSH_FILTERS = "pushFilters"
"""Whether filters narrow the plan. Spark refuses a source that would where its session does not."""

KNOWN = (
    "path",
    "url",
    *TOPICS,
    *STARTINGS,
    STRATEGY,
    *ENDINGS,
    *STREAM_ONLY,
    TOPIC_ID,
    "minPartitions",
    PARALLELISM,
    "maxRecordsPerPartition",
    PUSH_FILTERS,
    "failOnDataLoss",
    "includeHeaders",
    "groupIdPrefix",
    BOOTSTRAP,
)
_SPELT = {name.lower(): name for name in KNOWN}

CLIENT_PREFIXES = ("kafka.", "kafkaconsumer.", "fetchoffset.")
"""Settings of Kafka clients: there is none here."""

REFUSED_BY_KAFKA = {
    "kafka.auto.offset.reset": "set startingOffsets instead",
    "kafka.enable.auto.commit": "progress lives in the checkpoint; commitGroup shows it to tools",
    "kafka.interceptor.classes": "nothing runs inside the source",
    "kafka.key.deserializer": "keys are binary; cast them in the query",
    "kafka.value.deserializer": "values are binary; cast them in the query",
}
"""Options that Spark's Kafka source refuses too."""

DEFAULT_TRIGGER_DELAY = "15m"


class Mode(Enum):
    BATCH = "batch"
    STREAM = "stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """`url` is absolute: executors may run in another directory than the driver.

    `storage` are the `storage.*` settings, which say how to reach a bucket. `bootstrap` is where
    the group is found that `commit_group` names; empty: the brokers that the registry knows.
    """

    url: str
    storage: Storage
    topics: TopicChoice
    topic_id: bytes | None
    starting: Choice
    ending: Choice
    include_headers: bool
    fail_on_data_loss: bool
    offsets_max: int | None
    offsets_min: int | None
    trigger_delay_s: float
    bytes_max: int | None
    partitions_min: int | None
    parallelism: int | None
    records_max: int | None
    push_filters: bool
    commit_group: str | None
    bootstrap: str
    without_effect: tuple[str, ...]


def parse_options(options: Mapping[str, str], mode: Mode) -> ReadOptions:
    """Raises `Invalid`, naming the option and its possible values."""
    given = lowered(options)
    if not given:
        raise Invalid(
            "no options at all: option path names the log and subscribe its topics. Spark 4.2 "
            "drops the options of CREATE TABLE when it reads a Python source: read the table WITH "
            "(path='…', subscribe='…'), or make it a temporary view, which keeps them"
        )
    _check_names(given)
    topics = _topics(given)
    if mode is Mode.STREAM and (endings := [name for name in ENDINGS if name.lower() in given]):
        raise Invalid(
            f"option {endings[0]} is for batch reads only; a stream has no end, remove it"
        )
    offsets_max = positive_of(given, "maxOffsetsPerTrigger")
    offsets_min = positive_of(given, "minOffsetsPerTrigger")
    if offsets_max is not None and offsets_min is not None and offsets_min > offsets_max:
        raise Invalid(
            f"option minOffsetsPerTrigger is above maxOffsetsPerTrigger: {offsets_min} > "
            f"{offsets_max}; no batch could satisfy both"
        )
    return ReadOptions(
        url=url_of(given),
        storage=storage_of(given),
        topics=topics,
        topic_id=_topic_id(given),
        starting=_starting(given, topics, mode),
        ending=_ending(given, topics),
        include_headers=includes_headers(given),
        fail_on_data_loss=boolean_of(given, "failOnDataLoss", default=True),
        offsets_max=offsets_max,
        offsets_min=offsets_min,
        trigger_delay_s=duration_s_of(given, "maxTriggerDelay", DEFAULT_TRIGGER_DELAY),
        bytes_max=positive_of(given, "maxBytesPerTrigger"),
        partitions_min=positive_of(given, "minPartitions"),
        parallelism=positive_of(given, PARALLELISM),
        records_max=positive_of(given, "maxRecordsPerPartition"),
        push_filters=boolean_of(given, PUSH_FILTERS, default=False),
        commit_group=_group(given) if mode is Mode.STREAM else None,
        bootstrap=given.get(BOOTSTRAP, ""),
        without_effect=_without_effect(given, mode),
    )


def includes_headers(options: Mapping[str, str]) -> bool:
    """Whether the schema has the column `headers`. Raises `Invalid`."""
    return boolean_of(lowered(options), "includeHeaders", default=False)


def _check_names(given: Mapping[str, str]) -> None:
    for name in sorted(given):
        if (instead := REFUSED_BY_KAFKA.get(name)) is not None:
            raise Invalid(f"option {name} is not supported, as in Spark's Kafka source; {instead}")
        if name in _SPELT or name.startswith((STORAGE_PREFIX, *CLIENT_PREFIXES)):
            continue
        close = difflib.get_close_matches(name, list(_SPELT), 1, 0.5)
        near = f"did you mean {_SPELT[close[0]]}? " if close else ""
        raise Invalid(f"unknown option: name={name}; {near}known: {', '.join(KNOWN)}")


def _without_effect(given: Mapping[str, str], mode: Mode) -> tuple[str, ...]:
    """Names as they are written; Spark has already lowered those of Kafka clients."""
    idle = {name for name in given if name.startswith(CLIENT_PREFIXES)}
    if mode is Mode.BATCH:
        idle |= {name.lower() for name in STREAM_ONLY} & set(given)
    else:
        idle |= {PUSH_FILTERS.lower()} & set(given)
        if "commitgroup" in given:
            idle -= {BOOTSTRAP}
    return tuple(sorted(_SPELT.get(name, name) for name in idle))


def _topics(given: Mapping[str, str]) -> TopicChoice:
    chosen = [name for name in TOPICS if name.lower() in given]
    if not chosen:
        raise Invalid(
            'option subscribe is missing: topics to read, such as "orders,returns"; or give '
            "subscribePattern or assign"
        )
    if len(chosen) > 1:
        raise Invalid(f"options {' and '.join(chosen)} exclude each other; give one")
    (name,) = chosen
    return TOPICS[name](name, given[name.lower()])


def _topic_id(given: Mapping[str, str]) -> bytes | None:
    text = given.get(TOPIC_ID.lower())
    if text is None:
        return None
    if not re.fullmatch(r"[0-9a-f]{32}", text.strip()):
        raise Invalid(f"option {TOPIC_ID} is not the id of a topic, 32 hex digits: {text}")
    return bytes.fromhex(text)


def _starting(given: Mapping[str, str], topics: TopicChoice, mode: Mode) -> Choice:
    unmatched = {"error": None, "latest": LATEST}
    strategy = given.get(STRATEGY.lower(), "error").strip().lower()
    if strategy not in unmatched:
        raise Invalid(f"option {STRATEGY} is neither error nor latest: {strategy}")
    default = EARLIEST if mode is Mode.BATCH else LATEST
    choice = _choice(given, STARTINGS, topics, default, EARLIEST, unmatched[strategy])
    if mode is Mode.BATCH and isinstance(choice, OffsetChoice) and choice.moves:
        raise Invalid(
            "option startingOffsets: a batch cannot start at latest (-1); give earliest or offsets"
        )
    return choice


def _ending(given: Mapping[str, str], topics: TopicChoice) -> Choice:
    choice = _choice(given, ENDINGS, topics, LATEST, LATEST, LATEST)
    if isinstance(choice, OffsetChoice):
        offsets = [offset for of in choice.given.values() for offset in of.values()]
        if EARLIEST in (choice.default, *offsets):
            raise Invalid(
                "option endingOffsets: nothing can end at earliest (-2); give latest or offsets"
            )
    return choice


def _choice(
    given: Mapping[str, str],
    names: tuple[str, str, str],
    topics: TopicChoice,
    default: int,
    rest: int,
    unmatched: int | None,
) -> Choice:
    everywhere, by_time, by_offset = names
    if everywhere.lower() in given:
        return TimeChoice(everywhere, _time_ms(given, everywhere), {}, rest, unmatched)
    if (text := given.get(by_time.lower())) is not None:
        return TimeChoice(by_time, None, times_of(by_time, text, topics), rest, unmatched)
    if (text := given.get(by_offset.lower())) is not None:
        return offsets_of(by_offset, text, topics, rest)
    return OffsetChoice(default)


def _time_ms(given: Mapping[str, str], name: str) -> int:
    text = given[name.lower()].strip()
    if not text.isascii() or not text.isdecimal():
        raise Invalid(f"option {name} is not a time in milliseconds since 1970: {text}")
    return int(text)


def _group(given: Mapping[str, str]) -> str | None:
    text = given.get("commitgroup")
    if text is not None and not text.strip():
        raise Invalid("option commitGroup is empty; give the name of a consumer group")
    return text
