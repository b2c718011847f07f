"""All alerts on the metrics of brokers, the most urgent first.

Thresholds are for a cluster as it comes; a job that scrapes brokers has `logstore` in its name.
"""

from tools.monitoring.alert import Alert, Urgency

_BROKER = '{job="logstore",instance="a"}'
_A = (("job", "logstore"), ("instance", "a"))
TABLES_BEHIND_S = 3_600
"""Six times what a partition with hardly any records waits by the default freshness."""

ALERTS = (
    Alert(
        name="LogstoreBrokerDown",
        expression='up{job=~".*logstore.*"} == 0',
        lasts="1m",
        urgency=Urgency.PAGE,
        summary="A broker does not answer its monitoring.",
        example=[(f"up{_BROKER}", "0x30")],
        calm=[(f"up{_BROKER}", "1x30")],
        labels=_A,
    ),
    Alert(
        name="LogstorePartitionsWithoutLeader",
        expression="max(logstore_partitions_without_leader) > 0",
        lasts="1m",
        urgency=Urgency.PAGE,
        summary="Partitions have no live leader: they can be neither written nor read.",
        example=[(f"logstore_partitions_without_leader{_BROKER}", "3x30")],
        calm=[(f"logstore_partitions_without_leader{_BROKER}", "0x30")],
    ),
    Alert(
        name="LogstoreNoController",
        expression="sum(logstore_controller_active) != 1",
        lasts="1m",
        urgency=Urgency.PAGE,
        summary="Not exactly one broker acts as the controller: dead brokers are not replaced.",
        example=[(f"logstore_controller_active{_BROKER}", "0x30")],
        calm=[(f"logstore_controller_active{_BROKER}", "1x30")],
    ),
    Alert(
        name="LogstoreDamagedData",
        expression=(
            'sum(increase(logstore_request_errors_total{api="Fetch",code="CORRUPT_MESSAGE"}[10m]))'
            " > 0"
        ),
        lasts="0m",
        urgency=Urgency.PAGE,
        summary="Consumers are refused records whose stored bytes are damaged.",
        example=[
            (
                'logstore_request_errors_total{api="Fetch",code="CORRUPT_MESSAGE",instance="a"}',
                "0x15 1x30",
            )
        ],
        calm=[
            ('logstore_request_errors_total{api="Fetch",code="OFFSET_OUT_OF_RANGE"}', "0+1x30"),
            ('logstore_request_errors_total{api="Produce",code="CORRUPT_MESSAGE"}', "0+1x30"),
        ],
    ),
    Alert(
        name="LogstoreDenied",
        expression=(
            'sum(rate(logstore_store_request_seconds_count{outcome="denied"}[5m])) > 0 or '
            'sum(rate(logstore_registry_request_seconds_count{outcome="denied"}[5m])) > 0'
        ),
        lasts="2m",
        urgency=Urgency.PAGE,
        summary="Store or registry denies requests: credentials or permissions are missing.",
        example=[
            ('logstore_store_request_seconds_count{kind="create",outcome="denied"}', "0+9x30")
        ],
        calm=[('logstore_store_request_seconds_count{kind="create",outcome="ok"}', "0+9x30")],
    ),
    Alert(
        name="LogstoreDiskFull",
        expression="max by (instance) (logstore_disk_full) > 0",
        lasts="1m",
        urgency=Urgency.PAGE,
        summary="The disk is full: nothing can be written until some space is freed.",
        example=[(f"logstore_disk_full{_BROKER}", "1x30")],
        calm=[(f"logstore_disk_full{_BROKER}", "0x30")],
        labels=(("instance", "a"),),
    ),
    Alert(
        name="LogstoreStoreStalled",
        expression=(
            "max by (instance) (logstore_oldest_put_age_seconds) > 5 unless on (instance) "
            "logstore_disk_full == 1"
        ),
        lasts="1m",
        urgency=Urgency.PAGE,
        summary="The object store has not answered a put for seconds: producers wait.",
        example=[(f"logstore_oldest_put_age_seconds{_BROKER}", "0+2x30")],
        calm=[(f"logstore_oldest_put_age_seconds{_BROKER}", "0.3x30")],
        labels=(("instance", "a"),),
    ),
    Alert(
        name="LogstoreReadLeaseLost",
        expression="logstore_lease_vouches == 0 and on (instance) logstore_ready == 0",
        lasts="1m",
        urgency=Urgency.PAGE,
        summary="A broker cannot renew its lease: the registry does not answer it.",
        example=[
            (f"logstore_lease_vouches{_BROKER}", "0x30"),
            (f"logstore_ready{_BROKER}", "0x30"),
        ],
        calm=[
            (f"logstore_lease_vouches{_BROKER}", "1x30"),
            (f"logstore_ready{_BROKER}", "1x30"),
        ],
        labels=_A,
    ),
    Alert(
        name="LogstoreProducersHeld",
        expression="avg_over_time(logstore_producers_held[5m]) > 0.5",
        lasts="2m",
        urgency=Urgency.PAGE,
        summary="Most of the time a broker reads no requests of producers: its backlog is full.",
        example=[(f"logstore_producers_held{_BROKER}", "1x30")],
        calm=[(f"logstore_producers_held{_BROKER}", "0 0 1 0 0 0x30")],
        labels=_A,
    ),
    Alert(
        name="LogstoreNotReady",
        expression="logstore_ready == 0",
        lasts="5m",
        urgency=Urgency.PAGE,
        summary="A broker runs and does not serve well.",
        example=[(f"logstore_ready{_BROKER}", "0x30")],
        calm=[(f"logstore_ready{_BROKER}", "1x30")],
        labels=_A,
    ),
    Alert(
        name="LogstoreReadsFail",
        expression=(
            "sum by (instance) (rate(logstore_store_request_seconds_count"
            '{kind=~"get|get_range",outcome=~"retryable|unknown|failed"}[5m])) > 0.05'
        ),
        lasts="5m",
        urgency=Urgency.PAGE,
        summary="A broker gets no answers to its reads from the store: consumers wait for it.",
        example=[
            (
                'logstore_store_request_seconds_count{kind="get_range",outcome="retryable",'
                'instance="a"}',
                "0+12x30",
            )
        ],
        calm=[
            (
                'logstore_store_request_seconds_count{kind="get",outcome="retryable",instance="a"}',
                "0+1x30",
            ),
            (
                'logstore_store_request_seconds_count{kind="get",outcome="cancelled",instance="a"}',
                "0+60x30",
            ),
            (
                'logstore_store_request_seconds_count{kind="create",outcome="unknown",instance="a"}',
                "0+60x30",
            ),
        ],
        labels=[("instance", "a")],
    ),
    Alert(
        name="LogstoreCommitsSlow",
        expression=(
            "histogram_quantile(0.99, sum by (le) (rate(logstore_commit_seconds_bucket[5m]))) > 2"
        ),
        lasts="10m",
        urgency=Urgency.TICKET,
        summary="One produce request in a hundred waits for more than two seconds.",
        example=[
            ('logstore_commit_seconds_bucket{le="2.5"}', "0+5x40"),
            ('logstore_commit_seconds_bucket{le="5.0"}', "0+100x40"),
            ('logstore_commit_seconds_bucket{le="+Inf"}', "0+100x40"),
        ],
        calm=[
            ('logstore_commit_seconds_bucket{le="0.25"}', "0+100x40"),
            ('logstore_commit_seconds_bucket{le="+Inf"}', "0+100x40"),
        ],
        fires_after="30m",
    ),
    Alert(
        name="LogstoreThrottled",
        expression=(
            'sum(rate(logstore_store_request_seconds_count{outcome="throttled"}[10m])) > 0.1 or '
            'sum(rate(logstore_registry_request_seconds_count{outcome="throttled"}[10m])) > 0.1'
        ),
        lasts="10m",
        urgency=Urgency.TICKET,
        summary="Store or registry asks for fewer requests.",
        example=[
            (
                'logstore_registry_request_seconds_count{kind="update",outcome="throttled"}',
                "0+60x40",
            )
        ],
        calm=[('logstore_registry_request_seconds_count{kind="update",outcome="ok"}', "0+60x40")],
        fires_after="30m",
    ),
    Alert(
        name="LogstoreLoopHeld",
        expression=(
            "histogram_quantile(0.99, sum by (le, instance) "
            "(rate(logstore_loop_lag_seconds_bucket[5m]))) > 0.5"
        ),
        lasts="5m",
        urgency=Urgency.TICKET,
        summary="A broker does its work half a second late: all its clients wait, and its lease.",
        example=[
            ('logstore_loop_lag_seconds_bucket{instance="a",le="0.5"}', "0+50x40"),
            ('logstore_loop_lag_seconds_bucket{instance="a",le="1.0"}', "0+100x40"),
            ('logstore_loop_lag_seconds_bucket{instance="a",le="+Inf"}', "0+100x40"),
        ],
        calm=[
            ('logstore_loop_lag_seconds_bucket{instance="a",le="0.005"}', "0+100x40"),
            ('logstore_loop_lag_seconds_bucket{instance="a",le="+Inf"}', "0+100x40"),
        ],
        labels=(("instance", "a"),),
    ),
    Alert(
        name="LogstoreCompactionFailing",
        expression=(
            # Not by failures: a run that ends with an error of store or registry counts as none.
            "max(max_over_time(logstore_compaction_running[10m])) == 1 and "
            'sum(increase(logstore_compaction_runs_total{outcome="good"}[1h])) == 0'
        ),
        lasts="10m",
        urgency=Urgency.TICKET,
        summary="Compaction runs beside brokers and no run succeeds: tables fall behind.",
        example=[
            (f"logstore_compaction_running{_BROKER}", "1x90"),
            ('logstore_compaction_runs_total{outcome="good"}', "0+1x10 10x80"),
        ],
        calm=[
            (f"logstore_compaction_running{_BROKER}", "1x90"),
            ('logstore_compaction_runs_total{outcome="good"}', "7+1x90"),
        ],
        fires_after="85m",
    ),
    Alert(
        name="LogstoreTablesBehind",
        expression=f"max by (topic) (logstore_table_wait_seconds) > {TABLES_BEHIND_S}",
        lasts="10m",
        urgency=Urgency.TICKET,
        summary="Records have waited for their topic's table for more than an hour.",
        example=[('logstore_table_wait_seconds{topic="orders",instance="a"}', "0+60x90")],
        calm=[
            ('logstore_table_wait_seconds{topic="orders",instance="a"}', "0+60x50 0x40"),
            ('logstore_table_wait_offsets{topic="orders",instance="a"}', "9000x90"),
        ],
        labels=[("topic", "orders")],
        fires_after="75m",
        age_s=TABLES_BEHIND_S,
    ),
    Alert(
        name="LogstoreTrimmingFails",
        expression="sum(increase(logstore_trim_failures_total[30m])) > 3",
        lasts="10m",
        urgency=Urgency.TICKET,
        summary="Old segments are not deleted: storage grows.",
        example=[(f"logstore_trim_failures_total{_BROKER}", "0+1x60")],
        calm=[(f"logstore_trim_failures_total{_BROKER}", "5x60")],
        fires_after="50m",
    ),
    Alert(
        name="LogstoreKeysNotCompacted",
        # A run that has nothing to do for these partitions says 0 again, between others.
        expression="max(max_over_time(logstore_clean_uncleanable_partitions[30m])) > 0",
        lasts="1h",
        urgency=Urgency.TICKET,
        summary="Partitions of a compacted topic cannot be compacted by key.",
        example=[(f"logstore_clean_uncleanable_partitions{_BROKER}", " ".join(["2 0x18"] * 5))],
        calm=[(f"logstore_clean_uncleanable_partitions{_BROKER}", "0x90")],
        fires_after="80m",
    ),
)
