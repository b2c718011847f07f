"""`logstore groups reset-offsets`: look up offsets, choose, commit."""

from collections.abc import Sequence
from functools import partial

from logstore.cli.brokers.cluster_calls import EARLIEST, LATEST, Cluster
from logstore.cli.brokers.group_calls import ResetLine, commit_offsets, fetch_offsets, offsets_at
from logstore.cli.decisions.offset_reset import Target, choose


def reset_offsets(
    cluster: Cluster, group: str, topics: Sequence[str], target: Target, *, is_dry_run: bool
) -> list[ResetLine]:
    """All partitions of `topics`. Raises `Invalid`, above all while the group has members."""
    committed = fetch_offsets(cluster, group)
    lines: list[ResetLine] = []
    for topic in dict.fromkeys(topics):
        partitions = sorted(cluster.insist(partial(cluster.leaders, topic)))
        ends = offsets_at(cluster, topic, partitions, LATEST)
        starts = offsets_at(cluster, topic, partitions, EARLIEST)
        by_time: dict[int, int] = {}
        if target.timestamp is not None:
            by_time = offsets_at(cluster, topic, partitions, target.timestamp)
        before = {p: committed[topic, p] for p in partitions if (topic, p) in committed}
        after = choose(target, before, starts, ends, by_time)
        lines += [ResetLine(topic, p, before.get(p), after[p]) for p in partitions]
    if not is_dry_run:
        commit_offsets(cluster, group, {(line.topic, line.partition): line.after for line in lines})
    return lines
