"""Ends up to which tables hold partitions durably, so that chains may be trimmed below.

Rule 7: what a table held a grace ago and holds now, by its own snapshots, and only if every commit
since starts where the version before it ended. A commit that was overwritten, by a writer that does
not create conditionally, shows as a start that is not the end before: then no offset of that topic
counts as held, and an alarm is raised.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from logstore.errors import Corrupt, NotFound, Refused
from logstore.formats.topic_partition import TopicPartition
from logstore.history.delta import Tables
from logstore.history.forms.names import table_key
from logstore.history.forms.snapshot import CommitFacts, Snapshot

_TURNS_BACK = frozenset({"RESTORE", "REPLACE TABLE", "CREATE OR REPLACE TABLE", "CLONE"})
"""Operations of an owner that remove moved rows while the ends stay."""


@dataclass(frozen=True, slots=True)
class DurableEnds:
    """`ends` up to which a table held offsets a grace ago and now. `troubles`: alarms, by line."""

    ends: Mapping[TopicPartition, int]
    troubles: Sequence[str]


def held_ends(
    tables: Tables, topic_ids: Sequence[bytes], grace_ms: int, now_ms: int
) -> DurableEnds:
    """Of the partitions of these topics; a topic without a table, or with a young one, has none.

    Nothing comes from a cache, so that an overwrite is found: per topic read are the table's newest
    version, the one a grace ago, and every entry since; with a commit a minute and a grace of an
    hour about 150 GETs and a LIST (0.007 cents), so not for every topic every minute. Raises what
    stores raise, except where a table itself is at fault.
    """
    ends: dict[TopicPartition, int] = {}
    troubles: list[str] = []
    for topic_id in topic_ids:
        try:
            held = _held(tables, topic_id, now_ms - grace_ms)
        except NotFound:
            continue  # its log was cleaned, and does not go back a grace: it does when that is over
        except (Corrupt, Refused) as error:
            troubles.append(f"a table cannot be trusted: table={table_key(topic_id)} {error}")
            continue
        if isinstance(held, str):
            troubles.append(held)
        else:
            ends.update((TopicPartition(topic_id, one), end) for one, end in held.items())
    return DurableEnds(ends, troubles)


def _held(tables: Tables, topic_id: bytes, since_ms: int) -> Mapping[int, int] | str:
    """Ends by partition, or the trouble."""
    version, facts = tables.version_and_later(topic_id, since_ms)
    if version is None:
        return {}
    then = tables.snapshot(topic_id, version=version)
    now = tables.snapshot(topic_id, version=facts[-1].version if facts else version)
    if then is None or now is None:
        raise NotFound("it vanished while it was read")
    trouble = broken_link(then, now, facts)
    if trouble is not None:
        return f"{trouble} table={table_key(topic_id)}; no segment of it is deleted"
    return {one: min(end, now.ends.get(one, 0)) for one, end in then.ends.items()}


def broken_link(then: Snapshot, now: Snapshot, facts: Sequence[CommitFacts]) -> str | None:
    """Contradiction between two snapshots and the commits after the first; None without one."""
    ends = dict(then.ends)
    for fact in facts:
        if fact.version > now.version:
            break
        if fact.operation.upper() in _TURNS_BACK:
            return (
                f"a table was restored to an older version: version={fact.version} "
                f"operation={fact.operation}"
            )
        for partition, start in (fact.starts or {}).items():
            before = ends.get(partition, start)
            if before != start:
                return (
                    f"a commit does not begin where the table ended: version={fact.version} "
                    f"partition={partition} start={start} end={before}"
                )
        ends.update(fact.ends or {})
    if ends != now.ends:
        return f"a table does not end where its commits say: version={now.version}"
    return None
