"""What a plan of Spark must bring, however late its tasks run: every offset once, as produced."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from logstore.reading.planning.tasks import ReadTask
from logstore.testing.history import Partition
from tests.simulation.tiers.world import TierWorld

Row = tuple[Partition, int, bytes]


@dataclass(slots=True)
class Planned:
    """One plan and when it was made."""

    tasks: Sequence[ReadTask]
    topics: Mapping[bytes, str]
    made_s: float
    fails_on_data_loss: bool
    driver_began_s: float
    """A driver may go by what it knew of a table until a seq range tells it of a newer version."""
    starts: dict[Partition, int] = field(default_factory=dict)
    """Log starts that had been asked for when it was made."""
    wanted: dict[Partition, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for task in self.tasks:
            for partition, start, end in ranges_of(task):
                self.wanted.setdefault(partition, set()).update(range(start, end))

    @property
    def cut_pieces(self) -> int:
        """How often the offsets of one leadership lie in several tasks."""
        parts = [
            part
            for task in self.tasks
            for part in {
                (
                    segments.offsets.topic_id,
                    segments.offsets.number,
                    segments.leader_epoch,
                )
                for seq_range in task.seq_ranges
                for segments in seq_range.segment_ranges
            }
        ]
        return len(parts) - len(set(parts))


def ranges_of(task: ReadTask) -> list[tuple[Partition, int, int]]:
    found = [
        (
            Partition(part.offsets.topic_id, part.offsets.number),
            part.offsets.start,
            part.offsets.end,
        )
        for part in task.history
    ]
    for seq_range in task.seq_ranges:
        for segments in seq_range.segment_ranges:
            found.append(
                (
                    Partition(segments.offsets.topic_id, segments.offsets.number),
                    segments.offsets.start,
                    segments.offsets.end,
                )
            )
    return found


def judge(
    world: TierWorld,
    name: str,
    planned: Planned,
    results: Mapping[int, Sequence[Row]],
    *,
    hears_of_edits: bool = True,
) -> None:
    """`results`: rows by task, of all of them."""
    counts: dict[tuple[Partition, int], int] = {}
    for task, rows in results.items():
        reached: dict[Partition, int] = {}
        for partition, offset, value in rows:
            if offset <= reached.get(partition, -1):
                world.violate(f"{name} task={task}: offset {offset} after {reached[partition]}")
            reached[partition] = offset
            counts[partition, offset] = counts.get((partition, offset), 0) + 1
            world.history.read(partition, offset, value)
    doubled = [key for key, count in counts.items() if count > 1]
    if doubled:
        partition, offset = min(doubled)
        world.violate(
            f"{name}: {len(doubled)} offsets read twice or more, first partition="
            f"{partition.number} offset={offset} tasks={len(planned.tasks)}"
        )
    for partition, wanted in planned.wanted.items():
        got = {offset for one, offset in counts if one == partition}
        if got - wanted:
            world.violate(f"{name}: offset {min(got - wanted)} was not planned")
        if world.history.is_deleted(partition.topic_id):
            continue
        edits = [
            e for e in world.edits if e.partition == partition and e.at_s < planned.driver_began_s
        ]
        kept = {offset for edit in edits for offset in edit.offsets & got if hears_of_edits}
        if kept:
            world.violate(
                f"{name}: {len(kept)} rows that the table's owner deleted were read, first "
                f"partition={partition.number} offset={min(kept)}"
            )
        start = world.history.start_asked(partition)
        lost = {offset for offset in wanted - got if offset >= start}
        lost.difference_update(world.history.edited(partition))
        if lost:
            world.violate(
                f"{name}: {len(lost)} offsets were not read, first partition={partition.number} "
                f"offset={min(lost)} log start asked={start}"
            )
