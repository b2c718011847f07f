"""Writes docs/spark-options.md from the cases that hold ours against Spark's Kafka source.

python -m tools.spark_options
"""

from pathlib import Path

from tests.spark_source.option_cases import Case
from tests.spark_source.option_table import CASES

PAGE = Path(__file__).parent.parent / "docs" / "spark-options.md"

_HEAD = """# Options of `format("logstore")`, beside those of Spark's Kafka source

Made by `python -m tools.spark_options`; do not edit. Every row is a test
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
_COLUMNS = ("option", "for", "default", "meaning", "beside Spark's Kafka source")


def render() -> str:
    theirs = [case for case in CASES if not case.is_ours]
    ours = [case for case in CASES if case.is_ours]
    return (
        f"{_HEAD}## Spark's Kafka source has them too\n\n{_table(theirs)}\n"
        f"## Only here\n\n{_table(ours)}"
    )


def _table(cases: list[Case]) -> str:
    rows = [_COLUMNS, ("---",) * len(_COLUMNS), *map(_row, cases)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(case: Case) -> tuple[str, ...]:
    names = ", ".join(name if _is_prose(name) else f"`{name}`" for name in case.options)
    differences = [f"*{name}*: {reason}" for name, reason in case.differs.items()]
    beside = "; ".join(differences) if case.is_ours else "; ".join(["same", *differences])
    texts = (names, case.queries, case.default or "-", case.meaning, beside)
    return tuple(text.replace("|", "\\|") for text in texts)


def _is_prose(name: str) -> bool:
    return " " in name or "`" in name


if __name__ == "__main__":
    PAGE.write_text(render())
