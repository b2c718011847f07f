"""Which topics, and where in them to begin and to end: values, and how options spell them. Pure."""

import json
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from logstore.errors import Invalid

EARLIEST = -2
LATEST = -1
"""Special values of an offset in JSON, as in Spark's Kafka source."""

WORDS = {"earliest": EARLIEST, "latest": LATEST}
INTERNAL = frozenset({"__consumer_offsets", "__transaction_state"})
"""Internal topics of brokers: patterns do not match them, names do."""

ByPartition = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """Exactly one of the three: topics by name, by pattern, or single partitions by topic.

    `option` is the one that chose, as errors name it.
    """

    option: str
    names: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def of(self, existing: Iterable[str]) -> list[str]:
        """Those of the existing topics that are meant."""
        return sorted(name for name in existing if self.means(name))

    def means(self, topic: str) -> bool:
        if self.pattern is None:
            return topic in self.names
        return topic not in INTERNAL and re.search(self.pattern, topic) is not None

    def means_partition(self, topic: str, partition: int) -> bool:
        """Of a topic that is meant."""
        return not self.partitions or partition in self.partitions.get(topic, ())

    def __str__(self) -> str:
        return self.pattern or ", ".join(self.names)


@dataclass(frozen=True, slots=True)
class OffsetChoice:
    """Where to begin or to end: `given` by topic and partition, `default` where it says nothing.

    Offsets may be `EARLIEST` or `LATEST`.
    """

    default: int
    given: ByPartition = field(default_factory=dict)

    @property
    def moves(self) -> bool:
        """Whether the place changes while the log grows."""
        return LATEST in (self.default, *_values(self.given))


@dataclass(frozen=True, slots=True)
class TimeChoice:
    """The first record at or after a time (ms): one for all, or `given` by topic and partition.

    `rest` is where partitions go for which there is no time, `unmatched` where those go that have
    no such record; None refuses them.
    """

    option: str
    everywhere: int | None
    given: ByPartition
    rest: int
    unmatched: int | None

    def time_for(self, topic: str, partition: int) -> int | None:
        if self.everywhere is not None:
            return self.everywhere
        return self.given.get(topic, {}).get(partition)

    @property
    def moves(self) -> bool:
        """Whether the place may change while the log grows."""
        return LATEST in (self.rest, self.unmatched)


Choice = OffsetChoice | TimeChoice


def topics_of_list(option: str, text: str) -> TopicChoice:
    names = {name.strip() for name in text.split(",")} - {""}
    if not names:
        raise Invalid(f'option {option} names no topic: {text!r}; write "orders,returns"')
    return TopicChoice(option, tuple(sorted(names)))


def topics_of_pattern(option: str, text: str) -> TopicChoice:
    """Found anywhere in a name, as Spark's Kafka source does it, whose patterns are Java's.

    What Python cannot read, or reads as something else, is refused.
    """
    if not text.strip():
        raise Invalid(f'option {option} is empty; write a pattern such as "orders-.*"')
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(text)
        _refuse_set_algebra(text)
    except (re.error, RecursionError, OverflowError, Warning) as error:
        raise Invalid(
            f"option {option} is not a pattern that Python reads: {text!r}: {error}; Java's "
            "classes such as \\p{Alpha}, [a-z&&[^x]] and \\Q..\\E have to be written out"
        ) from error
    return TopicChoice(option, pattern=text)


def topics_of_assignment(option: str, text: str) -> TopicChoice:
    form = 'write {"orders":[0,1]}'
    parsed = _object(option, text, form)
    partitions: dict[str, tuple[int, ...]] = {}
    for topic, numbers in parsed.items():
        if not isinstance(numbers, list) or not numbers or not all(map(_is_natural, numbers)):
            raise Invalid(f"option {option} is not JSON of partitions: {text}; {form}")
        partitions[topic] = tuple(sorted(set(numbers)))
    if not partitions:
        raise Invalid(f"option {option} names no partition: {text}; {form}")
    return TopicChoice(option, tuple(sorted(partitions)), partitions=partitions)


def offsets_of(option: str, text: str, topics: TopicChoice, rest: int) -> OffsetChoice:
    """Partitions that JSON does not name go to `rest`."""
    if (word := text.strip().lower()) in WORDS:
        return OffsetChoice(WORDS[word])
    form = 'write {"topic":{"0":23,"1":-2}}, where -2 is earliest and -1 latest'
    try:
        chosen = _by_partition(option, text, EARLIEST, form)
    except Invalid as error:
        raise Invalid(
            f"option {option} is neither earliest, latest nor JSON of offsets: {text}; {form}"
        ) from error
    _check_topics(option, chosen, topics)
    return OffsetChoice(rest, chosen)


def times_of(option: str, text: str, topics: TopicChoice) -> ByPartition:
    chosen = _by_partition(option, text, 0, 'write {"topic":{"0":1700000000000}}, in milliseconds')
    _check_topics(option, chosen, topics)
    return chosen


def _refuse_set_algebra(pattern: str) -> None:
    """Raises `re.error` for `[a[b]]` and `[a-z&&[^x]]`: Python takes the signs for characters."""
    inside = False
    for found in re.finditer(r"\\.|\[\^?\]?|\]|&&", pattern, re.DOTALL):
        sign = found.group()
        if inside and (sign == "&&" or sign[0] == "["):
            raise re.error("sets of sets are Java's", pattern, found.start())
        inside = sign[0] == "[" or (inside and sign != "]")


def _by_partition(option: str, text: str, least: int, form: str) -> dict[str, dict[int, int]]:
    chosen: dict[str, dict[int, int]] = {}
    for topic, numbers in _object(option, text, form).items():
        if not isinstance(numbers, dict):
            _refuse_json(option, text, form)
        chosen[topic] = {}
        for partition, number in numbers.items():
            if not _is_decimal(partition) or type(number) is not int or number < least:
                _refuse_json(option, text, form)
            chosen[topic][int(partition)] = number
    return chosen


def _check_topics(option: str, chosen: ByPartition, topics: TopicChoice) -> None:
    if unwanted := sorted(topic for topic in chosen if not topics.means(topic)):
        raise Invalid(
            f"option {option} names topics that are not subscribed: {', '.join(unwanted)}; "
            f"{topics.option}: {topics}"
        )
    for topic, numbers in chosen.items():
        if others := sorted(n for n in numbers if not topics.means_partition(topic, n)):
            raise Invalid(
                f"option {option} names partitions that are not assigned: topic={topic} "
                f"partitions={others}; {topics.option}: {list(topics.partitions[topic])}"
            )


def _object(option: str, text: str, form: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        _refuse_json(option, text, form, error)
    if not isinstance(parsed, dict):
        _refuse_json(option, text, form)
    return parsed


def _refuse_json(option: str, text: str, form: str, error: Exception | None = None) -> NoReturn:
    raise Invalid(f"option {option} is not the JSON it should be: {text}; {form}") from error


def _is_natural(number: object) -> bool:
    return type(number) is int and number >= 0


def _is_decimal(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _values(given: ByPartition) -> list[int]:
    return [number for numbers in given.values() for number in numbers.values()]
