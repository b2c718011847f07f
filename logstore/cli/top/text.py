"""The figures of `logstore top` as tables of texts.

Names of topics and groups are made up by clients: no character of them may steer a terminal.
"""

from collections.abc import Sequence
from typing import NamedTuple

from logstore.cli.decisions.printable import printable
from logstore.cli.decisions.top_figures import BrokerFigures, ClusterFigures
from logstore.cli.output import dollars_text, size_text

UNKNOWN = "-"
NAME_CHARACTERS_MAX = 60


class TopTable(NamedTuple):
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def summary_line(figures: ClusterFigures) -> str:
    gone = len(figures.brokers) - figures.alive
    controllers = (
        "1 controller" if figures.controllers == 1 else f"{figures.controllers} controllers!"
    )
    return ", ".join(
        [
            f"{figures.alive} brokers" + (f", {gone} gone!" if gone else ""),
            controllers,
            f"{figures.partitions_without_leader} partitions without leader"
            + ("!" if figures.partitions_without_leader else ""),
            *([f"{figures.throttled} throttled by quotas!"] if figures.throttled else []),
            f"in {_bytes(figures.bytes_in_rate)}/s",
            f"out {_bytes(figures.bytes_out_rate)}/s",
            f"{_number(figures.requests_rate)} requests/s",
            f"lag {figures.lag:,}",
            f"{_dollars(figures.dollars_an_hour)} an hour",
        ]
    )


def tables_of(figures: ClusterFigures) -> list[TopTable]:
    """Those that have a row; brokers always."""
    tables = [
        TopTable(
            "brokers",
            (
                *("broker", "state", "leads", "in/s", "out/s", "requests/s", "produce p50", "p99"),
                *("commit p99", "backlog", "oldest put", "holds/s", "$/hour"),
            ),
            [_broker_row(one) for one in figures.brokers],
        ),
        TopTable(
            "requests",
            ("api", "a second", "p50", "p99", "errors/s"),
            [
                (
                    one.api,
                    _number(one.rate),
                    _ms(one.p50_s),
                    _ms(one.p99_s),
                    _number(one.errors_rate),
                )
                for one in figures.apis
            ],
        ),
        TopTable(
            "topics",
            ("topic", "in/s", "records in/s", "out/s"),
            [
                (
                    _short(printable(one.topic)),
                    _bytes(one.bytes_in_rate),
                    _number(one.records_in_rate),
                    _bytes(one.bytes_out_rate),
                )
                for one in figures.topics
            ],
        ),
        TopTable(
            "groups",
            ("group", "members", "topics", "lag"),
            [
                (_short(printable(one.group)), str(one.members), str(one.topics), f"{one.lag:,}")
                for one in figures.groups
            ],
        ),
    ]
    return [
        one._replace(rows=[tuple(map(printable, row)) for row in one.rows])
        for one in tables
        if one.rows
    ]


def _short(name: str) -> str:
    return name if len(name) <= NAME_CHARACTERS_MAX else f"{name[: NAME_CHARACTERS_MAX - 1]}…"


def _broker_row(one: BrokerFigures) -> tuple[str, ...]:
    if one.error:
        return (one.address, f"gone: {_short(printable(one.error))}", *[UNKNOWN] * 11)
    state = one.state + (", controller" if one.is_controller else "")
    return (
        one.address,
        state + (", holds producers" if one.holds_producers else ""),
        str(one.led),
        _bytes(one.bytes_in_rate),
        _bytes(one.bytes_out_rate),
        _number(one.requests_rate),
        _ms(one.produce_p50_s),
        _ms(one.produce_p99_s),
        _ms(one.commit_p99_s),
        size_text(one.backlog_bytes),
        f"{one.oldest_put_s:.1f} s",
        _number(one.holds_rate),
        _dollars(one.dollars_an_hour),
    )


def _bytes(rate: float | None) -> str:
    return UNKNOWN if rate is None else size_text(round(rate))


def _number(rate: float | None) -> str:
    return UNKNOWN if rate is None else f"{rate:,.1f}"


def _ms(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else f"{seconds * 1000:,.1f} ms"


def _dollars(value: float | None) -> str:
    return UNKNOWN if value is None else dollars_text(value)
