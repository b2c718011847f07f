"""Every option of Spark's Kafka source, and ours: one body each, run on both formats.

A body reads a place and tells what it saw, by name of the case. What is named in `differs` differs,
with the reason that users are given; all else is the same. docs/spark-options.md is made of this.

    orders   partition 0: 50 records, a millisecond apart; partition 1: 20, five seconds later
    returns  partition 0: 10 records
    trimmed  partition 0: 30 records, of which retention has left [10, 30)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from spark_source.settings import FILTERS
from tests.spark_source.places import Place, Written
from tests.spark_source.reads import TIME_MS, Reads, found
from tests.spark_source.reads import as_json as j

Seen = dict[str, object]
BOTH, BATCH, STREAM = "both", "batch", "stream"
EARLIEST = {"startingOffsets": "earliest"}
ORDERS = {"subscribe": "orders"}
LATER_MS = 5000


@dataclass(frozen=True, slots=True)
class Case:
    options: tuple[str, ...]
    queries: str
    default: str
    meaning: str
    body: Callable[[Reads], Seen]
    differs: Mapping[str, str] = field(default_factory=dict)
    is_ours: bool = False


def write_topics(place: Place) -> None:
    place.create_topic("orders", 2)
    place.create_topic("returns", 1)
    place.create_topic("trimmed", 1)
    header = (("trace", b"\x00\xff"), ("none", None))
    place.append("orders", 0, [Written(TIME_MS + n, b"%d" % n, b"k") for n in range(50)])
    later = [Written(TIME_MS + LATER_MS + n, b"%d" % n) for n in range(20)]
    place.append("orders", 1, [Written(TIME_MS + LATER_MS, b"0", None, header), *later[1:]])
    place.append("returns", 0, [Written(TIME_MS + n, None, b"k") for n in range(10)])
    place.append("trimmed", 0, [Written(TIME_MS + n, b"v") for n in range(30)])
    place.delete_records("trimmed", 0, 10)


def subscribe(reads: Reads) -> Seen:
    return {
        "several topics": reads.batch(subscribe="orders, returns"),
        "in a stream": reads.stream(**ORDERS, **EARLIEST),
        "a topic that is not there": reads.refused(lambda: reads.batch(subscribe="nowhere")),
        "none of the three options": reads.refused(reads.batch),
        "two of the three options": reads.refused(lambda: reads.batch(**ORDERS, assign="{}")),
    }


def subscribe_pattern(reads: Reads) -> Seen:
    first, checkpoint = reads.topic(), reads.checkpoint()
    grows = {"subscribePattern": first + ".*", **EARLIEST}
    reads.add(first, 3)
    before = reads.stream(checkpoint, **grows)
    reads.place.create_topic(f"{first}-later", 1)
    reads.add(f"{first}-later", 4)
    after = reads.stream(checkpoint, **grows)
    return {
        "of a part of the name": reads.batch(subscribePattern="eturn|^order"),
        "of the whole name": reads.batch(subscribePattern="^order$"),
        "that matches nothing": reads.batch(subscribePattern="nowhere.*"),
        "a topic that comes later": [[list(found.values()) for found in before + after]],
        "that cannot be parsed": reads.refused(lambda: reads.batch(subscribePattern="(")),
        "a class that only Java has": reads.refused(
            lambda: reads.batch(subscribePattern=r"\p{Lower}rders")
        ),
    }


def assign(reads: Reads) -> Seen:
    return {
        "a partition": reads.batch(assign=j({"orders": [1]})),
        "in a stream": reads.stream(assign=j({"orders": [1], "returns": [0]}), **EARLIEST),
        "not JSON": reads.refused(lambda: reads.batch(assign="orders")),
        "a partition that is not there": reads.refused(
            lambda: reads.batch(assign=j({"orders": [7]}))
        ),
    }


def starting_offsets(reads: Reads) -> Seen:
    def batch(text: str, **more: str) -> object:
        return reads.refused(lambda: reads.batch(**ORDERS, startingOffsets=text, **more))

    growing = reads.topic()
    reads.add(growing, 3)
    latest = reads.running(
        [lambda: reads.add(growing, 2)],
        subscribe=growing,
        startingOffsets="latest",
    )
    given = j({"orders": {"0": 40, "1": -2}})
    return {
        "offsets": batch(given),
        "offsets, in a stream": reads.stream(**ORDERS, startingOffsets=given),
        "earliest after retention": reads.batch(subscribe="trimmed", **EARLIEST),
        "latest, in a stream": [list(found.values()) for found in latest],
        "latest, in a batch": batch("latest"),
        "-1, in a batch": batch(j({"orders": {"0": -1, "1": 0}})),
        "another word": batch("newest"),
        "beyond the end": batch(j({"orders": {"0": 51, "1": 0}})),
        "after endingOffsets": batch(
            j({"orders": {"0": 20, "1": 0}}), endingOffsets=j({"orders": {"0": 10, "1": 5}})
        ),
        "partitions left out": batch(j({"orders": {"0": 40}})),
    }


def ending_offsets(reads: Reads) -> Seen:
    def batch(text: str) -> object:
        return reads.refused(lambda: reads.batch(**ORDERS, endingOffsets=text))

    return {
        "offsets": batch(j({"orders": {"0": 12, "1": -1}})),
        "latest": batch("latest"),
        "earliest": batch("earliest"),
        "-2": batch(j({"orders": {"0": -2, "1": 0}})),
        "in a stream": reads.refused(lambda: reads.stream(**ORDERS, endingOffsets="latest")),
        "partitions left out": batch(j({"orders": {"0": 12}})),
    }


def starting_timestamp(reads: Reads) -> Seen:
    def batch(time_ms: int, **more: str) -> object:
        return reads.refused(lambda: reads.batch(**ORDERS, startingTimestamp=str(time_ms), **more))

    wins = {
        "startingOffsetsByTimestamp": j({"orders": {"0": TIME_MS, "1": TIME_MS}}),
        "startingOffsets": "earliest",
    }
    return {
        "between records": batch(TIME_MS + 10),
        "wins over the others": batch(TIME_MS + 11, **wins),
        "in a stream": reads.stream(**ORDERS, startingTimestamp=str(TIME_MS + 10)),
        "newer than all": batch(TIME_MS + 60_000),
        "below what retention has left": reads.batch(
            subscribe="trimmed", startingTimestamp=str(TIME_MS + 5)
        ),
        "not a number": reads.refused(lambda: reads.batch(**ORDERS, startingTimestamp="yesterday")),
    }


def starting_offsets_by_timestamp(reads: Reads) -> Seen:
    def batch(times: Mapping[str, int], **more: str) -> object:
        given = {"startingOffsetsByTimestamp": j({"orders": dict(times)}), **more}
        return reads.refused(lambda: reads.batch(**ORDERS, **given))

    times = {"0": TIME_MS + 30, "1": TIME_MS + LATER_MS + 5}
    given = j({"orders": times})
    return {
        "by partition": batch(times),
        "wins over startingOffsets": batch(times, startingOffsets="earliest"),
        "in a stream": reads.stream(**ORDERS, startingOffsetsByTimestamp=given),
        "newer than all": batch({"0": TIME_MS, "1": TIME_MS + 60_000}),
        "partitions left out": batch({"0": TIME_MS + 30}),
    }


def by_timestamp_strategy(reads: Reads) -> Seen:
    def batch(strategy: str) -> object:
        given = {"startingTimestamp": str(TIME_MS + 1000)}
        return reads.refused(
            lambda: reads.batch(**ORDERS, **given, startingOffsetsByTimestampStrategy=strategy)
        )

    return {"latest": batch("latest"), "error": batch("error"), "another word": batch("earliest")}


def ending_timestamp(reads: Reads) -> Seen:
    def batch(time_ms: int) -> object:
        return reads.batch(**ORDERS, endingTimestamp=str(time_ms))

    return {
        "between records": batch(TIME_MS + LATER_MS + 3),
        "older than all": batch(TIME_MS - 1),
        "newer than all": batch(TIME_MS + 60_000),
        "in a stream": reads.refused(lambda: reads.stream(**ORDERS, endingTimestamp="1")),
    }


def ending_offsets_by_timestamp(reads: Reads) -> Seen:
    def batch(times: Mapping[str, int]) -> object:
        given = {"endingOffsetsByTimestamp": j({"orders": dict(times)})}
        return reads.refused(lambda: reads.batch(**ORDERS, **given))

    return {
        "by partition": batch({"0": TIME_MS + 30, "1": TIME_MS + 60_000}),
        "in a stream": reads.refused(
            lambda: reads.stream(**ORDERS, endingOffsetsByTimestamp=j({"orders": {"0": 1}}))
        ),
        "partitions left out": batch({"0": TIME_MS + 30}),
    }


def max_offsets(reads: Reads) -> Seen:
    return {
        "shared by backlog": reads.stream(**ORDERS, **EARLIEST, maxOffsetsPerTrigger="35"),
        "one of each at least": reads.stream(**ORDERS, **EARLIEST, maxOffsetsPerTrigger="60")[0],
        "in a batch": reads.batch(**ORDERS, maxOffsetsPerTrigger="5"),
    }


def min_offsets(reads: Reads) -> Seen:
    def stream(**options: str) -> object:
        return reads.refused(lambda: reads.stream(**ORDERS, **EARLIEST, **options))

    return {
        "the first batch waits for nothing": stream(minOffsetsPerTrigger="1000"),
        "too few are left": stream(minOffsetsPerTrigger="15", maxOffsetsPerTrigger="30"),
        "above maxOffsetsPerTrigger": stream(minOffsetsPerTrigger="9", maxOffsetsPerTrigger="5"),
    }


def max_trigger_delay(reads: Reads) -> Seen:
    growing = reads.topic()
    reads.add(growing, 5)
    slow = {"minOffsetsPerTrigger": "1000", "maxTriggerDelay": "500ms"}
    steps = [lambda: 5, lambda: reads.add(growing, 2)]
    batches = reads.running(steps, subscribe=growing, **EARLIEST, **slow)
    return {
        "few, after a while": [list(found.values()) for found in batches],
        "not a duration": reads.refused(
            lambda: reads.stream(**ORDERS, minOffsetsPerTrigger="5", maxTriggerDelay="soon")
        ),
    }


def min_partitions(reads: Reads) -> Seen:
    return {
        "as many tasks at least": reads.tasks(**ORDERS, minPartitions="6") >= 6,
        "the same rows": reads.batch(**ORDERS, minPartitions="6"),
        "0": reads.refused(lambda: reads.batch(**ORDERS, minPartitions="0")),
        "not given": reads.tasks(**ORDERS),
    }


def max_records(reads: Reads) -> Seen:
    both = {**ORDERS, "maxRecordsPerPartition": "15", "minPartitions": "3"}
    return {
        "with minPartitions": reads.largest_task(**both) <= 15,
        "the same rows": reads.batch(**both),
        "0": reads.refused(lambda: reads.batch(**ORDERS, maxRecordsPerPartition="0")),
        "alone, in a batch": reads.largest_task(**ORDERS, maxRecordsPerPartition="15") <= 15,
    }


def fail_on_data_loss(reads: Reads) -> Seen:
    lost = {"subscribe": "trimmed", "startingOffsets": j({"trimmed": {"0": 4}})}
    no, yes = {"failOnDataLoss": "false"}, {"failOnDataLoss": "true"}
    return {
        "true": reads.refused(lambda: reads.batch(**lost, **yes)),
        "true, in a stream": reads.refused(lambda: reads.stream(**lost)),
        "false": reads.batch(**lost, **no),
        "false, in a stream": reads.stream(**lost, **no),
        "neither": reads.refused(lambda: reads.batch(**ORDERS, failOnDataLoss="maybe")),
        "a topic created again": _created_again(reads),
    }


def _created_again(reads: Reads) -> object:
    topic, checkpoint = reads.topic(), reads.checkpoint()
    reads.add(topic, 10)
    reads.stream(checkpoint, subscribe=topic, **EARLIEST)
    reads.place.delete_topic(topic)
    reads.place.create_topic(topic, 1)
    reads.add(topic, 20)
    again = reads.refused(lambda: reads.stream(checkpoint, subscribe=topic, **EARLIEST))
    return again if isinstance(again, str) else [list(found.values()) for found in again]


def include_headers(reads: Reads) -> Seen:
    def headers(offset: int) -> object:
        rows = reads.frame(assign=j({"orders": [1]}), includeHeaders="true")
        (row,) = rows.where(f"offset = {offset}").select("headers").collect()
        return None if row.headers is None else [(one.key, one.value) for one in row.headers]

    return {
        "columns without": reads.frame(**ORDERS).columns,
        "columns with": reads.frame(**ORDERS, includeHeaders="true").columns,
        "a record with headers": headers(0),
        "a record without headers": headers(1),
    }


def bootstrap_servers(reads: Reads) -> Seen:
    name = "kafka.bootstrap.servers"
    elsewhere = {**ORDERS, name: reads.groups.bootstrap}
    return {
        "given": reads.batch(**elsewhere),
        "left out": reads.refused(lambda: reads.batch(name, **ORDERS)),
    }


def client_settings(reads: Reads) -> Seen:
    tuned = {
        "kafka.fetch.max.bytes": "1000000",
        "kafka.group.id": "mine",
        "kafka.isolation.level": "read_committed",
    }

    def refused(name: str) -> object:
        return reads.refused(lambda: reads.batch(**ORDERS, **{name: "x"}))

    return {
        "any other": reads.batch(**ORDERS, **tuned),
        "kafka.auto.offset.reset": refused("kafka.auto.offset.reset"),
        "kafka.enable.auto.commit": refused("kafka.enable.auto.commit"),
        "kafka.key.deserializer": refused("kafka.key.deserializer"),
        "kafka.interceptor.classes": refused("kafka.interceptor.classes"),
    }


def reader_settings(reads: Reads) -> Seen:
    tuned = {
        "groupIdPrefix": "mine",
        "kafkaConsumer.pollTimeoutMs": "20000",
        "fetchOffset.numRetries": "2",
        "fetchOffset.retryIntervalMs": "20",
    }
    return {"any": reads.batch(**ORDERS, **tuned)}


def max_bytes(reads: Reads) -> Seen:
    topic = reads.topic()
    for _ in range(10):
        reads.add(topic, 10)
    batches = reads.stream(subscribe=topic, **EARLIEST, maxBytesPerTrigger="1000")
    return {"several batches": len(batches) > 1}


def commit_group(reads: Reads) -> Seen:
    group = f"seen-by-tools-{reads.place.format}"
    options = {"commitGroup": group, "kafka.bootstrap.servers": reads.groups.bootstrap}
    reads.stream(**ORDERS, **EARLIEST, **options)
    reported = reads.groups.group_offsets(group)
    return {"after the last batch": {f"{t}/{p}": offset for (t, p), offset in reported.items()}}


def push_filters(reads: Reads) -> Seen:
    with reads.session(FILTERS, "true"):
        rows = reads.frame(**ORDERS, pushFilters="true")
        return {
            "the same rows": found(rows.where("partition = 1 and offset >= 3")),
            "tasks for nothing": rows.where("partition = 9").rdd.getNumPartitions(),
        }


def parallelism(reads: Reads) -> Seen:
    return {
        "the same rows": reads.batch(**ORDERS, parallelism="100"),
        "0": reads.refused(lambda: reads.batch(**ORDERS, parallelism="0")),
    }


def one_life(reads: Reads) -> Seen:
    another = "0" * 31 + "1"
    return {"of another life": reads.refused(lambda: reads.batch(**ORDERS, topicId=another))}


def some_columns(reads: Reads) -> Seen:
    def read() -> object:
        reader = reads.spark.read.schema("offset bigint, value binary").format(reads.place.format)
        rows = reader.options(**{**reads.place.options, **ORDERS}).load()
        return sorted(row.offset for row in rows.collect())[-1], rows.columns

    return {"a choice of columns": reads.refused(read)}


def unknown(reads: Reads) -> Seen:
    return {"a misspelt option": reads.refused(lambda: reads.batch(**ORDERS, startingOffset="x"))}
