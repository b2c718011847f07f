"""Many seeds, over hours and sessions: each is written down when it ends, so a run can be resumed.

    python -m tests.simulation.campaign KIND FIRST COUNT FILE [JOBS]

KIND is `cluster`, `tiers` or `names`. FILE gets a line of JSON per seed; seeds that it holds are
not played again. Prints a line per violation, progress every 25 seeds, and at the end, or at
Ctrl-C, what all seeds of FILE saw between them. The exit code is 1 when any of them violated a
rule.
"""

import gc
import json
import multiprocessing
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.simulation.names import play_names
from tests.simulation.test_cluster import MUST_BE_SEEN as CLUSTER_MUST_SHOW
from tests.simulation.test_cluster import play_cluster
from tests.simulation.test_names import MUST_BE_SEEN as NAMES_MUST_SHOW
from tests.simulation.tiers.story import play_tiers
from tests.simulation.tiers.test_tiers import MUST_BE_SEEN as TIERS_MUST_SHOW
from tests.simulation.world import World

PROGRESS_SEEDS = 25
KINDS: dict[str, tuple[Callable[[int], World], tuple[str, ...]]] = {
    "cluster": (play_cluster, CLUSTER_MUST_SHOW),
    "tiers": (play_tiers, TIERS_MUST_SHOW),
    "names": (play_names, NAMES_MUST_SHOW),
}


@dataclass(frozen=True)
class PlayedSeed:
    seed: int
    cpu_s: float
    acknowledged: int  # batches
    sent: int  # batches
    read: int  # records
    seen: dict[str, int]
    violations: list[str]


def play_one(kind: str, seed: int) -> PlayedSeed:
    began = time.process_time()
    # A world is one heap that lives as long as its seed: the collector would walk it for nothing.
    gc.disable()
    try:
        world = KINDS[kind][0](seed)
        violations = list(map(str, world.violations))
        acknowledged, read = world.history.acked_count, world.history.read_count
        seen = dict(world.seen)
    except Exception as error:  # noqa: BLE001 - the campaign goes on, the seed is named
        violations, acknowledged, read, seen = [f"raised {error!r}"], 0, 0, {}
    finally:
        gc.enable()
    gc.collect()
    took = round(time.process_time() - began, 2)
    return PlayedSeed(seed, took, acknowledged, seen.get("batches sent", 0), read, seen, violations)


def read_played(path: Path) -> dict[int, PlayedSeed]:
    """What FILE holds. Cuts off the half line of a run that was killed: its seed comes again."""
    path.touch()
    whole, _, half = path.read_text().rpartition("\n")
    if half:
        path.write_text(whole + "\n" if whole else "")
    played = [PlayedSeed(**json.loads(line)) for line in whole.splitlines()]
    return {one.seed: one for one in played}


def summary_of(kind: str, played: dict[int, PlayedSeed]) -> Iterator[str]:
    seen: Counter[str] = Counter()
    for one in played.values():
        seen.update(one.seen)
    count = len(played)
    bad = [one for one in played.values() if one.violations]
    yield f"{kind}: {count:,} seeds, {len(bad)} with violations: {[one.seed for one in bad]}"
    if not count:
        return
    cpu_s = sum(one.cpu_s for one in played.values())
    acknowledged = sum(one.acknowledged for one in played.values())
    sent = sum(one.sent for one in played.values())
    read = sum(one.read for one in played.values())
    yield (
        f"per seed: CPU seconds {cpu_s / count:.2f}, batches acknowledged "
        f"{acknowledged / count:.0f} of {sent / count:.0f} sent, records read {read / count:.0f}"
    )
    must = KINDS[kind][1]
    yield f"must be seen, and never was: {[what for what in must if not seen[what]]}"
    for what, times in sorted(seen.items(), key=lambda item: -item[1]):
        yield f"{times / count:12.2f} a seed  {what}"


def main(arguments: list[str]) -> int:
    kind, first, count, path = arguments[0], int(arguments[1]), int(arguments[2]), arguments[3]
    jobs = int(arguments[4]) if len(arguments) > 4 else 1
    file = Path(path)
    played = read_played(file)
    wanted = [seed for seed in range(first, first + count) if seed not in played]
    context = multiprocessing.get_context("fork")
    try:
        with (
            file.open("a") as out,
            context.Pool(jobs, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool,
        ):
            for one in pool.imap_unordered(_Play(kind), wanted):
                played[one.seed] = one
                out.write(json.dumps(asdict(one)) + "\n")
                out.flush()
                for violation in one.violations:
                    sys.stdout.write(f"seed {one.seed} violated {violation}\n")
                if one.violations or len(played) % PROGRESS_SEEDS == 0:
                    sys.stdout.write(f"{len(played):,} played, the last is {one.seed}\n")
                    sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stdout.write("interrupted: the same command goes on from here\n")
    for line in summary_of(kind, played):
        sys.stdout.write(f"{line}\n")
    return 1 if any(one.violations for one in played.values()) else 0


@dataclass(frozen=True)
class _Play:
    """Plays seeds of one kind in another process."""

    kind: str

    def __call__(self, seed: int) -> PlayedSeed:
        return play_one(self.kind, seed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
