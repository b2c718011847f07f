"""Result of a run, for its line, its table and its JSON. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from logstore.compaction.decisions.clean_plan import CleanFound
from logstore.compaction.decisions.clean_rules import CleanRange
from logstore.compaction.decisions.plan import TaskResult
from logstore.history.forms.snapshot import DataFile
from logstore.prices import Requests, cost_of


@dataclass(slots=True, kw_only=True)
class TopicSummary:
    """Of one topic; `partitions` are those that moved, `bytes_in` batches as they were stored."""

    topic: str
    partitions: int = 0
    rows: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    files: int = 0
    undecodable: int = 0
    expired_files: int = 0
    merged_files: int = 0
    cleaned_partitions: int = 0
    cleaned_rows: int = 0
    """Rows that key compaction looked at."""
    cleaned_bytes: int = 0
    """… the size of their files."""
    dropped_rows: int = 0
    dropped_tombstones: int = 0
    dropped_keyless: int = 0
    rewritten_files: int = 0
    rewritten_bytes: int = 0
    """Of the new files."""
    uncleanable: dict[int, str] = field(default_factory=dict)
    """Partitions that key compaction left to a later run, and why."""
    version: int | None = None
    error: str = ""

    def add_files(self, files: Sequence[DataFile]) -> None:
        """New ones with rows that moved."""
        self.files += len(files)
        self.rows += sum(file.rows for file in files)
        self.bytes_out += sum(file.size_bytes for file in files)

    def add_moved(self, topic_id: bytes, result: TaskResult) -> None:
        self.bytes_in += result.bytes_in.get(topic_id, 0)
        self.undecodable += sum(
            count for (mine, _), count in result.undecodable.items() if mine == topic_id
        )

    def add_cleaned(
        self,
        cleaned: CleanRange,
        found: CleanFound,
        removes: Sequence[DataFile],
        adds: Sequence[DataFile],
    ) -> None:
        """One partition, after its commit."""
        self.cleaned_partitions += 1
        self.cleaned_rows += cleaned.rows
        self.cleaned_bytes += cleaned.size_bytes
        self.dropped_rows += found.dropped
        self.dropped_tombstones += found.dropped_tombstones
        self.dropped_keyless += found.dropped_keyless
        self.rewritten_files += len(removes)
        self.rewritten_bytes += sum(file.size_bytes for file in adds)


@dataclass(slots=True, kw_only=True)
class Summary:
    """`cpu_s` is what tasks took, `seconds` the whole run. `requests` leave out Delta's own log."""

    run: str = ""
    seconds: float = 0.0
    rounds: int = 0
    tasks: int = 0
    topics: dict[str, TopicSummary] = field(default_factory=dict)
    dropped_tables: list[str] = field(default_factory=list)
    swept_files: int = 0
    abandoned_runs: int = 0
    requests: Requests = field(default_factory=Requests)
    cpu_s: float = 0.0
    clean_delay_ms: int = 0
    """For how long, when it looked, a record of a compacted topic had been in a table, not looked
    at by key compaction, beyond its topic's `max.compaction.lag.ms`: the longest time of all."""

    def topic(self, name: str) -> TopicSummary:
        return self.topics.setdefault(name, TopicSummary(topic=name))

    def add_task(self, result: TaskResult) -> None:
        self.tasks += 1
        self.cpu_s += result.cpu_s
        self.add_requests(result.requests)

    def add_requests(self, more: Requests) -> None:
        self.requests = added(self.requests, more)

    @property
    def errors(self) -> list[str]:
        topics = [f"topic {name}: {one.error}" for name, one in self.topics.items() if one.error]
        return topics + [
            f"topic {name}: partition {partition} is not cleaned: {error}"
            for name, one in self.topics.items()
            for partition, error in sorted(one.uncleanable.items())
        ]

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.topics.values())

    @property
    def dollars(self) -> float:
        return cost_of(self.requests)

    def figures(self) -> dict[str, object]:
        """Everything, for JSON; sums come first."""
        topics = [self.topics[name] for name in sorted(self.topics)]
        sums: dict[str, object] = {
            name: sum(getattr(one, name) for one in topics)
            for name in ("partitions", "rows", "bytes_in", "bytes_out", "files", "undecodable")
        }
        sums |= {
            "expired_files": sum(one.expired_files for one in topics),
            "merged_files": sum(one.merged_files for one in topics),
            "cleaned_partitions": sum(one.cleaned_partitions for one in topics),
            "cleaned_bytes": sum(one.cleaned_bytes for one in topics),
            "dropped_rows": sum(one.dropped_rows for one in topics),
            "dropped_keyless": sum(one.dropped_keyless for one in topics),
            "rewritten_bytes": sum(one.rewritten_bytes for one in topics),
            "uncleanable_partitions": sum(len(one.uncleanable) for one in topics),
            "max_compaction_delay_secs": self.clean_delay_ms // 1000,
        }
        return {
            "run": self.run,
            "seconds": round(self.seconds, 3),
            "cpu_s": round(self.cpu_s, 3),
            "rounds": self.rounds,
            "tasks": self.tasks,
            **sums,
            "dropped_tables": self.dropped_tables,
            "swept_files": self.swept_files,
            "abandoned_runs": self.abandoned_runs,
            "requests": self.requests,
            "dollars": self.dollars,
            "topics": topics,
            "errors": self.errors,
        }


def added(first: Requests, second: Requests) -> Requests:
    return Requests(
        first.creates + second.creates,
        first.gets + second.gets,
        first.lists + second.lists,
        first.deletes + second.deletes,
    )


def line_of(summary: Summary) -> str:
    """One line for a run: what moved, or that nothing was due."""
    moved = [one for one in summary.topics.values() if one.partitions]
    parts = [f"run {summary.run}:"]
    if moved:
        parts.append(
            f"{_count(summary.rows, 'record')} of {_count(len(moved), 'topic')}, "
            f"{_count(sum(one.partitions for one in moved), 'partition')}, "
            f"in {_count(sum(one.files for one in moved), 'file')}, "
            f"{_mb(sum(one.bytes_in for one in moved))} → "
            f"{_mb(sum(one.bytes_out for one in moved))}"
        )
    else:
        parts.append("nothing to move")
    parts += [f"; {text}" for text in _others(summary)]
    parts.append(f"; {summary.seconds:.1f} s")
    return " ".join(parts).replace(" ;", ";")


def _others(summary: Summary) -> Sequence[str]:
    topics = summary.topics.values()
    counts = [
        (sum(one.undecodable for one in topics), "batch that cannot be decoded"),
        (sum(one.merged_files for one in topics), "file merged"),
        (sum(one.expired_files for one in topics), "file below log start removed"),
        (sum(one.cleaned_partitions for one in topics), "partition cleaned"),
        (sum(one.dropped_rows for one in topics), "record replaced by a newer one dropped"),
        (len(summary.dropped_tables), "table dropped"),
        (summary.swept_files, "file swept"),
        (sum(bool(one.error) for one in topics), "topic failed"),
        (sum(len(one.uncleanable) for one in topics), "partition not cleaned"),
    ]
    return [f"{text}: {count}" for count, text in counts if count]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f} MB"
