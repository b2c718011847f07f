"""Writes docs/spark-options.md: of reading, from the cases that hold ours against Spark's Kafka
source; of writing, from the list that the sink itself takes its names from.

python -m tools.spark_options
"""

from collections.abc import Iterable
from pathlib import Path

from spark_source.sink.option_list import SINK_OPTIONS, SinkOption
from tests.spark_source.option_cases import Case
from tests.spark_source.option_table import CASES

PAGE = Path(__file__).parent.parent / "docs" / "spark-options.md"

_HEAD = """# Options of `format("logstore")`, beside those of Spark's Kafka source and sink

Made by `python -m tools.spark_options`; do not edit. [Writing](#writing) is the last part. Every
row of reading is a test
(`tests/spark_source/test_options_compared.py`): one body reads the same records with
`format("kafka")` of Spark 4.2.0 from Apache Kafka 4.3.1, and with `format("logstore")`. "Same" is
what came out; each difference is a case in which something else must come out, and why. Words are
explained in [spark.md](spark.md).

Names are taken in any case. `path` (or `url`), the URL of the log, is the one option that must be
added, and `storage.*` says how to reach a bucket: `storage.endpoint`, `storage.region`,
`storage.profile`, `storage.path.style`. What is contradictory is refused: two of `subscribe`,
`subscribePattern` and `assign`, a minimum above a maximum, a start after an end, an ending in a
stream.

"""
_WRITING = """## Writing

[How it works, and what to know](spark-sink.md). Any other name is refused, with the nearest that
exists; Kafka's sink ignores it.

"""
_COLUMNS = ("option", "for", "default", "meaning", "beside Spark's Kafka source")
_SINK_COLUMNS = ("option", "for", "default", "meaning", "beside Spark's Kafka sink")


def render() -> str:
    theirs = [case for case in CASES if not case.is_ours]
    ours = [case for case in CASES if case.is_ours]
    theirs_too = _table(_COLUMNS, map(_row, theirs))
    return (
        f"{_HEAD}## Reading: what Spark's Kafka source has too\n\n{theirs_too}\n"
        f"## Reading: only here\n\n{_table(_COLUMNS, map(_row, ours))}\n"
        f"{_WRITING}{_table(_SINK_COLUMNS, map(_sink_row, SINK_OPTIONS))}"
    )


def _table(columns: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> str:
    rows = [columns, ("---",) * len(columns), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(case: Case) -> tuple[str, ...]:
    names = ", ".join(name if _is_prose(name) else f"`{name}`" for name in case.options)
    differences = [f"*{name}*: {reason}" for name, reason in case.differs.items()]
    beside = "; ".join(differences) if case.is_ours else "; ".join(["same", *differences])
    texts = (names, case.queries, case.default or "-", case.meaning, beside)
    return tuple(text.replace("|", "\\|") for text in texts)


def _sink_row(option: SinkOption) -> tuple[str, ...]:
    texts = (f"`{option.name}`", option.queries, option.default, option.meaning, option.kafka)
    return tuple(text.replace("|", "\\|") for text in texts)


def _is_prose(name: str) -> bool:
    return " " in name or "`" in name


if __name__ == "__main__":
    PAGE.write_text(render())
