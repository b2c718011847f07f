"""Options: what Spark's Kafka source takes is taken, all else is refused with what to write."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Invalid
from spark_source.options import (
    EARLIEST,
    LATEST,
    Mode,
    OffsetChoice,
    ReadOptions,
    includes_headers,
    parse_options,
)

HERE = {"path": "/data/log", "subscribe": "orders"}


def parsed(mode: Mode = Mode.STREAM, **options: str) -> ReadOptions:
    return parse_options({**HERE, **options}, mode)


def test_a_stream_starts_at_latest_and_a_batch_reads_everything() -> None:
    stream, batch = parsed(Mode.STREAM), parsed(Mode.BATCH)

    assert stream.starting == OffsetChoice(LATEST)
    assert batch.starting == OffsetChoice(EARLIEST)
    assert batch.ending == OffsetChoice(LATEST)
    assert stream.fail_on_data_loss
    assert not stream.include_headers
    assert (stream.offsets_max, stream.bytes_max, stream.partitions_min) == (None, None, None)


@given(st.sampled_from([str.lower, str.upper, str.swapcase]))
def test_names_and_words_may_be_in_any_case(spell: object) -> None:
    options = {
        "path": "/data/log",
        "subscribe": "b, a",
        "startingOffsets": "Earliest",
        "includeHeaders": "TRUE",
        "failOnDataLoss": "False",
        "maxOffsetsPerTrigger": "10",
        "maxBytesPerTrigger": "20",
        "minPartitions": "3",
        "Storage.Region": "eu-1",
    }
    found = parse_options({spell(name): text for name, text in options.items()}, Mode.STREAM)  # type: ignore[operator]

    assert found == ReadOptions(
        url="/data/log",
        storage=(("storage.region", "eu-1"),),
        topics=("a", "b"),
        starting=OffsetChoice(EARLIEST),
        ending=OffsetChoice(LATEST),
        include_headers=True,
        fail_on_data_loss=False,
        offsets_max=10,
        bytes_max=20,
        partitions_min=3,
    )


def test_offsets_in_json_choose_by_partition_and_earliest_fills_the_rest() -> None:
    found = parsed(startingOffsets='{"orders": {"0": 23, "1": -2, "2": -1}}')

    assert found.starting == OffsetChoice(EARLIEST, {"orders": {0: 23, 1: EARLIEST, 2: LATEST}})


def test_ending_offsets_in_json_leave_the_rest_at_latest() -> None:
    found = parsed(Mode.BATCH, endingOffsets='{"orders": {"0": 23}}')

    assert found.ending == OffsetChoice(LATEST, {"orders": {0: 23}})


def test_a_relative_path_is_made_absolute_and_a_url_is_left() -> None:
    assert parsed(path="data").url == str(Path("data").absolute())
    assert parsed(path="file:/data/log").url == "/data/log"
    bucket = {"url": "s3a://bucket/prefix", "subscribe": "orders"}
    assert parse_options(bucket, Mode.BATCH).url == "s3://bucket/prefix"
    assert parsed(url="/data/log").url == "/data/log"


@pytest.mark.parametrize(
    ("mode", "options", "says"),
    [
        (Mode.BATCH, {"startingOffset": "earliest"}, "did you mean startingOffsets"),
        (Mode.BATCH, {"checkpointlocation": "x"}, "unknown option: name=checkpointlocation; known"),
        (Mode.BATCH, {"kafka.bootstrap.servers": "h:9092"}, "has no meaning here.*path"),
        (Mode.STREAM, {"subscribePattern": "a.*"}, "subscribePattern is not there yet.*subscribe"),
        (Mode.STREAM, {"assign": "{}"}, "assign is not there yet.*subscribe"),
        (Mode.STREAM, {"startingTimestamp": "1"}, "startingTimestamp is not there yet$"),
        (Mode.STREAM, {"subscribe": " , "}, "subscribe is missing"),
        (Mode.STREAM, {"path": ""}, "path is missing"),
        (Mode.STREAM, {"url": "/other"}, "path and url differ"),
        (Mode.STREAM, {"path": "ftp://host/log"}, "unknown kind of URL: scheme=ftp"),
        (Mode.STREAM, {"storage.secret": "x"}, "unknown setting: storage.secret"),
        (Mode.STREAM, {"storage.path.style": "x"}, "storage.path.style is true or false"),
        (Mode.STREAM, {"endingOffsets": "latest"}, "endingOffsets is for batch reads only"),
        (Mode.BATCH, {"startingOffsets": "latest"}, "cannot start at latest"),
        (Mode.BATCH, {"startingOffsets": '{"orders":{"0":-1}}'}, "cannot start at latest"),
        (Mode.BATCH, {"endingOffsets": "earliest"}, "end at earliest"),
        (Mode.BATCH, {"endingOffsets": '{"orders":{"0":-2}}'}, "end at earliest"),
        (Mode.STREAM, {"startingOffsets": "newest"}, "neither earliest, latest nor JSON"),
        (Mode.STREAM, {"startingOffsets": "[1]"}, "neither earliest, latest nor JSON"),
        (Mode.STREAM, {"startingOffsets": '{"orders":[1]}'}, "neither earliest, latest nor JSON"),
        (Mode.STREAM, {"startingOffsets": '{"orders":{"0":-3}}'}, "nor JSON of offsets"),
        (Mode.STREAM, {"startingOffsets": '{"orders":{"0":true}}'}, "nor JSON of offsets"),
        (Mode.STREAM, {"startingOffsets": '{"orders":{"x":1}}'}, "nor JSON of offsets"),
        (Mode.STREAM, {"startingOffsets": '{"returns":{"0":1}}'}, "not subscribed: returns"),
        (Mode.STREAM, {"includeHeaders": "yes"}, "includeHeaders is neither true nor false: yes"),
        (Mode.STREAM, {"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is not a whole number"),
        (Mode.STREAM, {"maxBytesPerTrigger": "10m"}, "maxBytesPerTrigger is not a whole number"),
        (Mode.STREAM, {"minPartitions": "-1"}, "minPartitions is not a whole number"),
    ],
)
def test_what_cannot_be_meant_is_refused(mode: Mode, options: dict[str, str], says: str) -> None:
    with pytest.raises(Invalid, match=says):
        parsed(mode, **options)


def test_headers_are_known_before_anything_else_is_checked() -> None:
    assert includes_headers({"INCLUDEHEADERS": "true"})
    assert not includes_headers({})
