"""Which small data files become one: neighbours, many enough, and not again and again. Pure.

A group is merged when that at least doubles its largest file, so a row is rewritten about as often
as sizes double between a small file and a large one, and not with every run.
"""

from collections.abc import Iterator, Sequence

from logstore.history.forms.snapshot import DataFile, Snapshot

MiB = 1024 * 1024
SMALL_BYTES = 32 * MiB
MERGED_BYTES_MAX = 128 * MiB
MERGED_ROWS_MAX = 4_000_000
"""As many as a file has at most (`write.FILE_ROWS_MAX`): a file of more would be cut there, and be
merged again with the next run."""

FILES_MIN = 8
"""Fewer small files than this stay as they are."""

RUN_BYTES_MAX = 1024 * MiB
"""Of small files read in one run: merging must not hold up what waits to be moved."""


def groups_of(
    snapshot: Snapshot, *, files_min: int = FILES_MIN, small_bytes: int = SMALL_BYTES
) -> list[list[DataFile]]:
    """Files of one partition each, in offset order, to be merged; the most files first."""
    groups = [
        group
        for files in snapshot.files.values()
        for neighbours in _small_neighbours(files, small_bytes)
        for group in _groups(neighbours)
        if len(group) >= files_min
    ]
    return sorted(groups, key=len, reverse=True)


def within(groups: Sequence[list[DataFile]], bytes_max: int) -> list[list[DataFile]]:
    """The first of them, as many as are `bytes_max` together."""
    taken = []
    left = bytes_max
    for group in groups:
        left -= size_bytes(group)
        if left < 0:
            break
        taken.append(group)
    return taken


def size_bytes(files: Sequence[DataFile]) -> int:
    return sum(file.size_bytes for file in files)


def row_count(files: Sequence[DataFile]) -> int:
    return sum(file.rows for file in files)


def _small_neighbours(files: Sequence[DataFile], small_bytes: int) -> Iterator[list[DataFile]]:
    """Small files with nothing between them. Others' files, which may overlap, are left alone."""
    neighbours: list[DataFile] = []
    reached = -1
    for file in files:
        is_plain = file.has_bounds and file.rows > 0 and file.min_offset > reached
        if is_plain and file.size_bytes < small_bytes:
            neighbours.append(file)
        else:
            if not is_plain and neighbours:
                neighbours.pop()  # it may overlap the one before
            yield neighbours
            neighbours = []
        reached = max(reached, file.max_offset)
    yield neighbours


def _groups(neighbours: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    group: list[DataFile] = []
    for file in neighbours:
        is_full = size_bytes(group) + file.size_bytes > MERGED_BYTES_MAX
        if group and (is_full or row_count(group) + file.rows > MERGED_ROWS_MAX):
            yield _worth_it(group)
            group = []
        group.append(file)
    yield _worth_it(group)


def _worth_it(group: list[DataFile]) -> list[DataFile]:
    """The longest suffix of the group whose largest file is at most half of its bytes."""
    while group and 2 * max(file.size_bytes for file in group) > size_bytes(group):
        largest = max(range(len(group)), key=lambda i: group[i].size_bytes)
        group = group[largest + 1 :]
    return group
