"""CPU time of profiled brokers: the largest costs of each, by own time.

The profiler makes Python calls dearer than built-in ones, so shares are about right, no more; what
threads beside the event loop spend is one number.
"""

import json
import pstats
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LARGEST = 3

Place = tuple[str, int, str]
"""File, line, function."""


@dataclass(frozen=True, slots=True)
class Cost:
    """`own_s` without its callees; `share` is that of the event loop's time."""

    name: str
    own_s: float
    share: float
    calls: int


def largest_costs(own: dict[Place, tuple[int, float]], count: int = LARGEST) -> list[Cost]:
    """`own` has calls and own seconds by function."""
    total_s = sum(own_s for _, own_s in own.values()) or 1.0
    costs = [
        Cost(name_of(place), own_s, own_s / total_s, calls) for place, (calls, own_s) in own.items()
    ]
    return sorted(costs, key=lambda cost: cost.own_s, reverse=True)[:count]


def name_of(place: Place) -> str:
    """Built-in functions have no file; others are named from their package on."""
    file, line, function = place
    if file == "~":
        return function
    parts = Path(file).with_suffix("").parts
    roots = [at for at, part in enumerate(parts) if part in ("logstore", "broker", "asyncio")]
    return f"{'.'.join(parts[roots[-1] if roots else -1 :])}:{line} {function}"


def report(folder: Path) -> Iterator[str]:
    """Lines for every profile in `folder`."""
    profiles = sorted(folder.glob("*.prof"))
    if not profiles:
        yield "no broker of this case runs under the profiler: try produce, fetch, cluster_produce"
    for path in profiles:
        found = pstats.Stats(str(path)).stats  # type: ignore[attr-defined]  # undocumented, stable
        own = {place: (calls, own_s) for place, (_, calls, own_s, _, _) in found.items()}
        yield f"{path.stem}: {_spent(path, sum(own_s for _, own_s in own.values()))}"
        for cost in largest_costs(own):
            yield f"  {cost.share:6.1%} {cost.own_s:8.2f} s {cost.calls:10,} calls  {cost.name}"


def _spent(path: Path, total_s: float) -> str:
    """A broker leaves beside its profile what its loop and its process took."""
    beside = path.with_suffix(".json")
    if not beside.exists():
        return f"{total_s:.1f} s (profiled)"
    cpu_s = json.loads(beside.read_text())
    rest_s = cpu_s["process"] - cpu_s["loop"]
    return f"event loop {cpu_s['loop']:.1f} CPU s (profiled), other threads {rest_s:.1f}"
