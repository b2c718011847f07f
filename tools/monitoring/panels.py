"""The dashboard of a cluster: what users feel first, then why, then what it costs."""

from tools.monitoring.dashboard import Panel, Row

_I = 'instance=~"$instance"'


def _rate(metric: str, by: str, more: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{{{_I}{more}}}[$__rate_interval]))"


def _p99(metric: str, by: str = "", more: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile(0.99, {_rate(f'{metric}_bucket', labels, more)})"


_TROUBLE = ',outcome=~"throttled|retryable|unknown|denied|failed"'

ROWS = (
    Row(
        "Is it well?",
        (
            Panel("Brokers ready", [("sum(logstore_ready)", "ready")], is_stat=True),
            Panel(
                "Partitions without a leader",
                [("max(logstore_partitions_without_leader)", "leaderless")],
                is_stat=True,
            ),
            Panel("Controllers", [("sum(logstore_controller_active)", "active")], is_stat=True),
            Panel(
                "Commit, p99", [(_p99("logstore_commit_seconds", "instance"), "{{instance}}")], "s"
            ),
            Panel(
                "Requests, p99",
                [(_p99("logstore_request_duration_seconds", "api"), "{{api}}")],
                "s",
                "A Fetch without data waits as it asks for.",
            ),
            Panel(
                "Errors by code",
                [(_rate("logstore_request_errors_total", "api, code"), "{{api}} {{code}}")],
            ),
        ),
    ),
    Row(
        "Clients",
        (
            Panel(
                "Bytes in, by topic",
                [(_rate("logstore_topic_bytes_in_total", "topic"), "{{topic}}")],
                "Bps",
            ),
            Panel(
                "Bytes out, by topic",
                [(_rate("logstore_topic_bytes_out_total", "topic"), "{{topic}}")],
                "Bps",
            ),
            Panel(
                "Records in, by topic",
                [(_rate("logstore_topic_records_in_total", "topic"), "{{topic}}")],
            ),
            Panel(
                "Requests",
                [(_rate("logstore_request_duration_seconds_count", "api"), "{{api}}")],
                "reqps",
            ),
            Panel(
                "Connections by software",
                [
                    (
                        f"sum by (software, version) (logstore_connections_by_software{{{_I}}})",
                        "{{software}} {{version}}",
                    )
                ],
            ),
            Panel("Producers held back", [(f"logstore_producers_held{{{_I}}}", "{{instance}}")]),
        ),
    ),
    Row(
        "Groups",
        (
            Panel("Lag", [("sum by (group) (logstore_group_lag_records)", "{{group}}")]),
            Panel("Members", [("sum by (group) (logstore_group_members)", "{{group}}")]),
            Panel(
                "Rebalances", [(_rate("logstore_group_rebalances_total", "reason"), "{{reason}}")]
            ),
        ),
    ),
    Row(
        "Writing",
        (
            Panel(
                "Segments", [(_rate("logstore_segments_stored_total", "instance"), "{{instance}}")]
            ),
            Panel("Why they left", [(_rate("logstore_flush_bytes_count", "reason"), "{{reason}}")]),
            Panel(
                "Mean size",
                [
                    (
                        f"{_rate('logstore_flush_bytes_sum', 'reason')} / "
                        f"{_rate('logstore_flush_bytes_count', 'reason')}",
                        "{{reason}}",
                    )
                ],
                "bytes",
            ),
            Panel("Backlog", [(f"logstore_backlog_bytes{{{_I}}}", "{{instance}}")], "bytes"),
            Panel(
                "Oldest put", [(f"logstore_oldest_put_age_seconds{{{_I}}}", "{{instance}}")], "s"
            ),
        ),
    ),
    Row(
        "Store and registry",
        (
            Panel(
                "Store, p99", [(_p99("logstore_store_request_seconds", "kind"), "{{kind}}")], "s"
            ),
            Panel(
                "Store, trouble",
                [
                    (
                        _rate("logstore_store_request_seconds_count", "kind, outcome", _TROUBLE),
                        "{{kind}} {{outcome}}",
                    )
                ],
                "reqps",
            ),
            Panel(
                "Store, requests",
                [(_rate("logstore_store_requests_total", "kind"), "{{kind}}")],
                "reqps",
            ),
            Panel(
                "Registry, p99",
                [(_p99("logstore_registry_request_seconds", "kind"), "{{kind}}")],
                "s",
            ),
            Panel(
                "Registry, trouble",
                [
                    (
                        _rate("logstore_registry_request_seconds_count", "kind, outcome", _TROUBLE),
                        "{{kind}} {{outcome}}",
                    )
                ],
                "reqps",
            ),
            Panel(
                "Dollars a month, at this rate",
                [
                    ("sum(rate(logstore_store_dollars_total[1h])) * 2628000", "store"),
                    ("sum(rate(logstore_registry_dollars_total[1h])) * 2628000", "registry"),
                ],
                "currencyUSD",
            ),
        ),
    ),
    Row(
        "Reading",
        (
            Panel(
                "Segments from memory",
                [
                    (
                        f"{_rate('logstore_cache_hits_total', 'instance')} / "
                        f"({_rate('logstore_cache_hits_total', 'instance')} + "
                        f"{_rate('logstore_cache_misses_total', 'instance')})",
                        "{{instance}}",
                    )
                ],
                "percentunit",
            ),
            Panel("Segment cache", [(f"logstore_cache_bytes{{{_I}}}", "{{instance}}")], "bytes"),
            Panel(
                "From tables",
                [(_rate("logstore_history_bytes_total", "instance"), "{{instance}}")],
                "Bps",
            ),
        ),
    ),
    Row(
        "Cluster",
        (
            Panel("Partitions led", [(f"logstore_partitions_led{{{_I}}}", "{{instance}}")]),
            Panel(
                "Takeovers",
                [("sum by (reason) (increase(logstore_takeovers_total[$__range]))", "{{reason}}")],
            ),
            Panel(
                "Takeover, p99 by part",
                [(_p99("logstore_takeover_seconds", "part"), "{{part}}")],
                "s",
            ),
            Panel(
                "Controller's actions",
                [(_rate("logstore_controller_actions_total", "action"), "{{action}}")],
            ),
            Panel(
                "Trimmed objects",
                [(_rate("logstore_trim_deleted_objects_total", "instance"), "{{instance}}")],
            ),
            Panel(
                "Failures of trimming",
                [(_rate("logstore_trim_failures_total", "instance"), "{{instance}}")],
            ),
        ),
    ),
    Row(
        "Compaction beside brokers",
        (
            Panel(
                "Since the last good run",
                [("time() - max(logstore_compaction_last_good_run_timestamp_seconds > 0)", "age")],
                "s",
            ),
            Panel("Runs", [(_rate("logstore_compaction_runs_total", "outcome"), "{{outcome}}")]),
            Panel(
                "Moved into tables",
                [(_rate("logstore_compaction_bytes_total", "instance"), "{{instance}}")],
                "Bps",
            ),
        ),
    ),
    Row(
        "Processes",
        (
            Panel(
                "CPU",
                [(_rate("process_cpu_seconds_total", "instance"), "{{instance}}")],
                "percentunit",
            ),
            Panel("Memory", [(f"process_resident_memory_bytes{{{_I}}}", "{{instance}}")], "bytes"),
            Panel(
                "Event loop late, p99",
                [(_p99("logstore_loop_lag_seconds", "instance"), "{{instance}}")],
                "s",
            ),
            Panel(
                "Longest hold, by API",
                [(f"max by (api) (logstore_loop_hold_longest_seconds{{{_I}}})", "{{api}}")],
                "s",
            ),
        ),
    ),
)
