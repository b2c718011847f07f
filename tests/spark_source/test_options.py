"""Options: what Spark's Kafka source takes is taken, all else is refused with what to write."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import Invalid
from spark_source.options import (
    KNOWN,
    Mode,
    ReadOptions,
    includes_headers,
    parse_options,
)
from spark_source.planning.choices import EARLIEST, LATEST, OffsetChoice, TimeChoice, TopicChoice

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
        "parallelism": "400",
        "minOffsetsPerTrigger": "5",
        "maxTriggerDelay": "2 Min",
        "maxRecordsPerPartition": "7",
        "pushFilters": "true",
        "topicId": bytes(range(16)).hex(),
        "commitGroup": "Lag",
        "Kafka.Bootstrap.Servers": "h:9092",
        "kafka.fetch.max.bytes": "1",
        "Storage.Region": "eu-1",
    }
    found = parse_options({spell(name): text for name, text in options.items()}, Mode.STREAM)  # type: ignore[operator]

    assert found == ReadOptions(
        url="/data/log",
        storage=(("storage.region", "eu-1"),),
        topics=TopicChoice("subscribe", ("a", "b")),
        topic_id=bytes(range(16)),
        starting=OffsetChoice(EARLIEST),
        ending=OffsetChoice(LATEST),
        include_headers=True,
        fail_on_data_loss=False,
        offsets_max=10,
        bytes_max=20,
        offsets_min=5,
        trigger_delay_s=120.0,
        partitions_min=3,
        parallelism=400,
        records_max=7,
        push_filters=True,
        commit_group="Lag",
        bootstrap="h:9092",
        without_effect=("kafka.fetch.max.bytes", "pushFilters"),
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
        (Mode.BATCH, {"kafka.auto.offset.reset": "x"}, "not supported.*set startingOffsets"),
        (Mode.BATCH, {"kafka.key.deserializer": "x"}, "as in Spark's Kafka source; keys are bin"),
        (Mode.STREAM, {"subscribePattern": "a.*"}, "subscribe and subscribePattern exclude each"),
        (Mode.STREAM, {"subscribe": " , "}, "subscribe names no topic"),
        (Mode.STREAM, {"kafka.bootstrap.servers": "h:1", "path": ""}, "servers does not say it"),
        (Mode.STREAM, {"minOffsetsPerTrigger": "2", "maxOffsetsPerTrigger": "1"}, ": 2 > 1; no"),
        (Mode.STREAM, {"maxTriggerDelay": "-1s"}, "maxTriggerDelay is not a duration: -1s"),
        (Mode.STREAM, {"maxTriggerDelay": "1 fortnight"}, "write 500ms, 30s, 15m or 1h"),
        (Mode.STREAM, {"maxRecordsPerPartition": "0"}, "maxRecordsPerPartition is not a whole"),
        (Mode.STREAM, {"commitGroup": " "}, "commitGroup is empty"),
        (Mode.STREAM, {"startingTimestamp": "1.5"}, "startingTimestamp is not a time in milli"),
        (Mode.STREAM, {"endingTimestamp": "1"}, "endingTimestamp is for batch reads only"),
        (
            Mode.STREAM,
            {"startingOffsetsByTimestampStrategy": "x"},
            "Strategy is neither error nor latest",
        ),
        (
            Mode.STREAM,
            {"startingOffsetsByTimestamp": '{"orders":{"0":-1}}'},
            "ByTimestamp is not the JSON it should be",
        ),
        (Mode.STREAM, {"path": ""}, "path is missing"),
        (Mode.STREAM, {"url": "/other"}, "path and url differ"),
        (Mode.STREAM, {"path": "ftp://host/log"}, "unknown kind of URL: scheme=ftp"),
        (Mode.STREAM, {"storage.secret": "x"}, "unknown setting: storage.secret"),
        (Mode.STREAM, {"storage.path.style": "x"}, "storage.path.style is neither true nor false"),
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


def test_one_of_three_options_chooses_topics() -> None:
    def topics(**options: str) -> TopicChoice:
        return parse_options({"path": "/data/log", **options}, Mode.BATCH).topics

    with pytest.raises(Invalid, match=r"subscribe is missing.*subscribePattern or assign"):
        topics()
    assert topics(subscribePattern="^a").pattern == "^a"
    assert topics(assign='{"a":[1,0,1]}') == TopicChoice("assign", ("a",), None, {"a": (0, 1)})


def test_of_several_places_to_start_the_one_by_time_for_all_is_the_strongest() -> None:
    offsets = {"startingOffsets": "nonsense that is not looked at"}
    by_time = {**offsets, "startingOffsetsByTimestamp": '{"orders":{"1":7}}'}
    strongest = parsed(Mode.STREAM, startingTimestamp="5", **by_time).starting
    weaker = parsed(Mode.STREAM, startingOffsetsByTimestampStrategy="LATEST", **by_time).starting

    assert strongest == TimeChoice("startingTimestamp", 5, {}, EARLIEST, None)
    assert weaker == TimeChoice(
        "startingOffsetsByTimestamp", None, {"orders": {1: 7}}, EARLIEST, LATEST
    )
    assert isinstance(weaker, TimeChoice)
    assert (weaker.time_for("orders", 1), weaker.time_for("orders", 0)) == (7, None)
    assert parsed(Mode.BATCH, endingTimestamp="5").ending == TimeChoice(
        "endingTimestamp", 5, {}, LATEST, LATEST
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15", 0.015), ("500ms", 0.5), ("3 s", 3), ("2m", 120), ("1h", 3600), ("1d", 86400)],
)
def test_durations_are_read_as_spark_reads_them(text: str, seconds: float) -> None:
    assert parsed(maxTriggerDelay=text).trigger_delay_s == seconds


def test_what_only_a_kafka_client_knows_is_accepted_and_reported() -> None:
    client = {
        "kafka.bootstrap.servers": "h:9092",
        "kafka.group.id": "g",
        "kafkaConsumer.pollTimeoutMs": "1",
        "fetchOffset.numRetries": "1",
        "groupIdPrefix": "p",
    }
    reported = tuple(sorted(name.lower() for name in client if name != "groupIdPrefix"))

    assert parsed(Mode.STREAM, **client).without_effect == (
        reported[0],
        "kafka.bootstrap.servers",
        *reported[2:],
    )
    assert parsed(Mode.STREAM, commitGroup="g", **client).bootstrap == "h:9092"
    assert (
        "kafka.bootstrap.servers"
        not in parsed(Mode.STREAM, commitGroup="g", **client).without_effect
    )


def test_a_batch_takes_the_limits_of_a_stream_and_says_that_they_do_nothing() -> None:
    found = parsed(Mode.BATCH, maxOffsetsPerTrigger="5", maxTriggerDelay="1s", commitGroup="g")

    assert found.without_effect == ("commitGroup", "maxOffsetsPerTrigger", "maxTriggerDelay")
    assert found.commit_group is None


def test_every_option_is_found_by_a_near_miss() -> None:
    for name in KNOWN:
        if name.startswith("kafka."):
            continue
        with pytest.raises(Invalid, match=f"did you mean {name}"):
            parsed(Mode.STREAM, **{name + "s_": "x"})


def test_a_table_whose_options_spark_dropped_is_distinguished_from_a_missing_option() -> None:
    with pytest.raises(Invalid, match=r"drops the options of CREATE TABLE.*temporary view"):
        parse_options({}, Mode.BATCH)


def test_headers_are_known_before_anything_else_is_checked() -> None:
    assert includes_headers({"INCLUDEHEADERS": "true"})
    assert not includes_headers({})


def test_a_topic_s_id_is_thirty_two_hex_digits() -> None:
    with pytest.raises(Invalid, match="topicId is not the id of a topic, 32 hex digits: orders"):
        parsed(topicId="orders")
