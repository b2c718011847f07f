"""The options as documented for users: the meaning of each, and differences from Kafka's source.

`same` in docs/spark-options.md is what `option_cases` saw on both.
"""

from tests.spark_source import option_cases as seen
from tests.spark_source.option_cases import BATCH, BOTH, STREAM, Case

FILLED = (
    "the others begin at earliest; Kafka's source refuses JSON that does not name every partition"
)
FILLED_END = (
    "the others end at latest; Kafka's source refuses JSON that does not name every partition"
)
NO_SUCH = "Kafka's source has no such option, and ignores what it does not know"

CASES = (
    Case(
        ("subscribe",),
        BOTH,
        "one of the three",
        "topics, separated by commas",
        seen.subscribe,
    ),
    Case(
        ("subscribePattern",),
        BOTH,
        "",
        "a regular expression that is found in a topic's name (`^orders$`: all of it); topics that "
        "come later too",
        seen.subscribe_pattern,
        {
            "a class that only Java has": "refused: patterns are Python's, and what Java reads "
            "otherwise is not guessed"
        },
    ),
    Case(
        ("assign",),
        BOTH,
        "",
        'single partitions: `{"orders":[0,1]}`',
        seen.assign,
        {"a partition that is not there": "refused; Kafka's source reads nothing there"},
    ),
    Case(
        ("startingOffsets",),
        BOTH,
        "stream: `latest`, batch: `earliest`",
        '`earliest`, `latest` (streams), or `{"orders":{"0":23,"1":-2}}`: -2 is earliest, -1 '
        "latest. For a query without a checkpoint",
        seen.starting_offsets,
        {"partitions left out": FILLED},
    ),
    Case(
        ("endingOffsets",),
        BATCH,
        "`latest`",
        "`latest` or JSON, offsets exclusive",
        seen.ending_offsets,
        {"partitions left out": FILLED_END},
    ),
    Case(
        ("startingTimestamp",),
        BOTH,
        "none",
        "milliseconds: each partition's first record at or after it. Wins over the next two",
        seen.starting_timestamp,
    ),
    Case(
        ("startingOffsetsByTimestamp",),
        BOTH,
        "none",
        '`{"orders":{"0":1700000000000}}`, milliseconds. Wins over `startingOffsets`',
        seen.starting_offsets_by_timestamp,
        {"partitions left out": FILLED},
    ),
    Case(
        ("startingOffsetsByTimestampStrategy",),
        BOTH,
        "`error`",
        "where no record is that new: `error`, or `latest`, which starts there at the end",
        seen.by_timestamp_strategy,
    ),
    Case(
        ("endingTimestamp",),
        BATCH,
        "none",
        "each partition ends before its first record at or after it. Wins over the next two",
        seen.ending_timestamp,
        {"in a stream": "refused like the other endings; Kafka's source ignores it"},
    ),
    Case(
        ("endingOffsetsByTimestamp",),
        BATCH,
        "none",
        "the same by partition. Wins over `endingOffsets`",
        seen.ending_offsets_by_timestamp,
        {"partitions left out": FILLED_END},
    ),
    Case(
        ("maxOffsetsPerTrigger",),
        STREAM,
        "none",
        "offsets per batch, shared by backlog; one of each partition at least",
        seen.max_offsets,
    ),
    Case(
        ("minOffsetsPerTrigger",),
        STREAM,
        "none",
        "no batch before so many wait. The first one of a run waits for nothing, and "
        "`availableNow` leaves a smaller rest to the next run",
        seen.min_offsets,
    ),
    Case(
        ("maxTriggerDelay",),
        STREAM,
        "`15m`",
        "the longest that `minOffsetsPerTrigger` makes a batch wait",
        seen.max_trigger_delay,
    ),
    Case(
        ("minPartitions",),
        BOTH,
        "none",
        "Spark tasks at least. Below the number of segments to read, a segment is fetched by "
        "several tasks",
        seen.min_partitions,
        {
            "not given": "tasks are planned by bytes and cores, not one for each partition: small "
            "partitions share one, large ones are split"
        },
    ),
    Case(
        ("maxRecordsPerPartition",),
        BOTH,
        "none",
        "records of a Spark task at most",
        seen.max_records,
        {"alone, in a batch": "obeyed; Kafka's source looks at it only beside `minPartitions`"},
    ),
    Case(
        ("failOnDataLoss",),
        BOTH,
        "`true`",
        "end the query when what it was to read is gone, or go on with what is left",
        seen.fail_on_data_loss,
        {
            "a topic created again": "refused, by its topic id; Kafka's source goes on at the old "
            "offset of the new topic, which skips what is below"
        },
    ),
    Case(
        ("includeHeaders",),
        BOTH,
        "`false`",
        "the column `headers`",
        seen.include_headers,
        {
            "a record without headers": "an empty array; Kafka's source gives null, which makes "
            "Python stages after it slow (`size(headers)` is 0, not -1)"
        },
    ),
    Case(
        ("kafka.bootstrap.servers",),
        BOTH,
        "brokers of the registry",
        "where `commitGroup` finds its group; nothing is read from there",
        seen.bootstrap_servers,
        {"left out": "not needed"},
    ),
    Case(
        ("kafka.*",),
        BOTH,
        "",
        "accepted, without effect, logged once: there is no Kafka client. `kafka.isolation.level` "
        "too: only committed records are read",
        seen.client_settings,
    ),
    Case(
        ("kafkaConsumer.*", "fetchOffset.*", "groupIdPrefix"),
        BOTH,
        "",
        "accepted, without effect",
        seen.reader_settings,
    ),
    Case(
        ("maxBytesPerTrigger",),
        STREAM,
        "none",
        "about so many stored bytes of the wanted partitions per batch; files of a table count "
        "whole. Of several limits the nearest rules",
        seen.max_bytes,
        {"several batches": NO_SUCH},
        is_ours=True,
    ),
    Case(
        ("commitGroup",),
        STREAM,
        "none",
        "a consumer group that shows the query's progress to Kafka's tools; nothing is read back, "
        "and a commit that fails is logged once and costs nothing else",
        seen.commit_group,
        {"after the last batch": NO_SUCH},
        is_ours=True,
    ),
    Case(
        ("parallelism",),
        BOTH,
        "cores of the driver",
        "how many tasks the executors run at once (`spark.sparkContext.defaultParallelism`): a "
        "batch is cut for as many, into tasks of 8 to 256 MiB. Without it tasks have at most 64 "
        "MiB. `read_topic` gives it",
        seen.parallelism,
        {"0": "refused; Kafka's source ignores it"},
        is_ours=True,
    ),
    Case(
        ("pushFilters",),
        BATCH,
        "`false`",
        "plan what the query's filters on `topic`, `partition`, `offset` and `timestamp` (from a "
        "time on) may want, and nothing else. Spark refuses it in a session without "
        "`spark.sql.python.filterPushdown.enabled=true`; `read_topic` and `table` give it where "
        "the session has that",
        seen.push_filters,
        {"tasks for nothing": "one; Kafka's source plans all there is, and filters afterwards"},
        is_ours=True,
    ),
    Case(
        ("topicId",),
        BOTH,
        "none",
        "the life of the topic that is meant, 32 hex digits: created again, it is refused",
        seen.one_life,
        {"of another life": NO_SUCH},
        is_ours=True,
    ),
    Case(
        ("`.schema(…)`",),
        BOTH,
        "all columns",
        "not an option but said like one: the columns that are read, and no others travel",
        seen.some_columns,
        {"a choice of columns": "Kafka's source refuses any schema but its own"},
        is_ours=True,
    ),
    Case(
        ("any other name",),
        BOTH,
        "",
        "refused, with the nearest that exists",
        seen.unknown,
        {"a misspelt option": "refused; Kafka's source ignores it, and reads something else"},
        is_ours=True,
    ),
)
