"""Options of the sink: read, checked, and refused with what to write instead.

Names and meanings are those of Spark's Kafka sink wherever it has the option; `option_list.py` has
all of them.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from logstore.errors import Invalid
from logstore.formats.staging_keys import BATCH_MAX
from logstore.reading.planning.tasks import Storage
from logstore.records.batch import CODECS, Codec
from spark_source.option_texts import (
    BOOTSTRAP,
    STORAGE_PREFIX,
    boolean_of,
    duration_s_of,
    lowered,
    storage_of,
    url_of,
)
from spark_source.sink.option_list import DEFAULT_ADOPT_TIMEOUT, DEFAULT_CODEC, SINK_OPTIONS

KNOWN = tuple(option.name for option in SINK_OPTIONS if not option.is_prefix)
SPARKS_OWN = ("checkpointlocation", "querynam", "queryname", "outputmode", "triggerinterval")
"""Options of a query that Spark passes on to its sink."""

KAFKA_CODEC = "kafka.compression.type"
KAFKA_PREFIX = "kafka."
"""Settings of Kafka's producer: there is none here, but for the codec."""

_SPELT = {name.lower(): name for name in KNOWN}


class Delivery(Enum):
    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """`topic` None: the column says it. `sink_id` None: the query's own id, or that of one write.

    `version` is of a batch write with `txnAppId`, whose id is `sink_id`. `bootstrap` empty: the
    brokers that the registry knows.
    """

    url: str
    storage: Storage
    topic: str | None
    codec: Codec
    delivery: Delivery
    sink_id: str | None
    version: int | None
    adopt_timeout_s: float
    bootstrap: str
    without_effect: tuple[str, ...]


def parse_write_options(options: Mapping[str, str], *, is_stream: bool) -> WriteOptions:
    """Raises `Invalid`, naming the option and its possible values."""
    given = lowered(options)
    _check_names(given)
    boolean_of(given, "includeHeaders", default=False)
    topic = given.get("topic")
    if topic is not None and not topic.strip():
        raise Invalid("option topic is empty; name a topic, or leave it to the column topic")
    sink_id, version = _stream_id(given) if is_stream else _batch_id(given)
    delivery = _delivery(given)
    if delivery is Delivery.AT_LEAST_ONCE and (sink_id is not None or version is not None):
        raise Invalid(
            "options sinkId, txnAppId and txnVersion are for delivery=exactly-once; remove them"
        )
    return WriteOptions(
        url=url_of(given),
        storage=storage_of(given),
        topic=topic,
        codec=_codec(given),
        delivery=delivery,
        sink_id=sink_id,
        version=version,
        adopt_timeout_s=duration_s_of(given, "adopt.timeout", DEFAULT_ADOPT_TIMEOUT),
        bootstrap=given.get(BOOTSTRAP, ""),
        without_effect=tuple(
            name
            for name in sorted(given)
            if name.startswith(KAFKA_PREFIX) and name not in (BOOTSTRAP, KAFKA_CODEC)
        ),
    )


def _check_names(given: Mapping[str, str]) -> None:
    for name in sorted(given):
        if name in _SPELT or name in SPARKS_OWN:
            continue
        if name.startswith((STORAGE_PREFIX, KAFKA_PREFIX)):
            continue
        close = difflib.get_close_matches(name, list(_SPELT), 1, 0.5)
        near = f"did you mean {_SPELT[close[0]]}? " if close else ""
        raise Invalid(f"unknown option of the sink: name={name}; {near}known: {', '.join(KNOWN)}")


def _stream_id(given: Mapping[str, str]) -> tuple[str | None, None]:
    for name in ("txnAppId", "txnVersion"):
        if name.lower() in given:
            raise Invalid(
                f"option {name} is for batch writes; a stream has batch numbers, remove it, or "
                "give its sink another id by sinkId"
            )
    return _text(given, "sinkId"), None


def _batch_id(given: Mapping[str, str]) -> tuple[str | None, int | None]:
    if "sinkid" in given:
        raise Invalid(
            "option sinkId is for streams; a batch write that may be repeated gives txnAppId and "
            "txnVersion"
        )
    app, version = _text(given, "txnAppId"), _text(given, "txnVersion")
    if (app is None) != (version is None):
        raise Invalid("options txnAppId and txnVersion go together; give both or neither")
    if version is None:
        return None, None
    if not version.isdecimal() or int(version) >= BATCH_MAX:
        raise Invalid(f"option txnVersion is not a whole number below 2^63 - 1: {version}")
    return app, int(version)


def _text(given: Mapping[str, str], name: str) -> str | None:
    text = given.get(name.lower())
    if text is not None and not text.strip():
        raise Invalid(f"option {name} is empty; give it a value, or remove it")
    return text


def _codec(given: Mapping[str, str]) -> Codec:
    text = given.get("compression", given.get(KAFKA_CODEC, DEFAULT_CODEC)).strip().lower()
    for codec in CODECS:
        if text == codec:
            return codec
    raise Invalid(f"option compression is none of {', '.join(CODECS)}: {text}")


def _delivery(given: Mapping[str, str]) -> Delivery:
    text = given.get("delivery", Delivery.EXACTLY_ONCE.value).strip().lower()
    try:
        return Delivery(text)
    except ValueError:
        kinds = " nor ".join(one.value for one in Delivery)
        raise Invalid(f"option delivery is neither {kinds}: {text}") from None
