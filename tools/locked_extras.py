"""The part of requirements.lock that some extras need, hashes and all, for an image.

python -m tools.locked_extras broker s3

Reads the lock's comments ("via"), which name the packages that need each one; no index is asked.
Runs on a bare Python 3.11 or newer.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parent.parent
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)
_VIA = re.compile(r"^\s+#(?: via)?\s+([A-Za-z0-9._-]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LockedPackage:
    """`text`: its lines of the lock; `via`: names of the packages that need it."""

    name: str
    text: str
    via: frozenset[str]


def locked_part(lock: str, project: Mapping[str, object], extras: Iterable[str]) -> str:
    """Lines of `lock`, for `pip install --require-hashes`. Raises `SystemExit`: no such extra."""
    packages = {package.name: package for package in _packages(lock)}
    wanted = set(_named(project, extras))
    lost = wanted - packages.keys()
    if lost:
        raise SystemExit(f"not in the lock: {', '.join(sorted(lost))}; run make lock")
    while more := {p.name for p in packages.values() if p.via & wanted} - wanted:
        wanted |= more
    return "".join(packages[name].text for name in sorted(wanted))


def _packages(lock: str) -> Iterator[LockedPackage]:
    places = [found.start() for found in _PINNED.finditer(lock)]
    for begin, end in pairwise([*places, len(lock)]):
        text = lock[begin:end]
        via = frozenset(_normal(name) for name in _VIA.findall(text))
        yield LockedPackage(_normal(text.partition("==")[0]), text, via)


def _named(project: Mapping[str, object], extras: Iterable[str]) -> Iterator[str]:
    """Names of the requirements of the project and of `extras`."""
    optional = project["optional-dependencies"]
    requirements = project["dependencies"]
    assert isinstance(optional, Mapping)
    assert isinstance(requirements, list)
    for extra in extras:
        if extra not in optional:
            raise SystemExit(f"no such extra: {extra}; there are {', '.join(sorted(optional))}")
        requirements = [*requirements, *optional[extra]]
    for requirement in requirements:
        found = re.match(r"[A-Za-z0-9._-]+", requirement)
        assert found is not None, requirement
        yield _normal(found[0])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main(extras: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    sys.stdout.write(locked_part((ROOT / "requirements.lock").read_text(), project, extras))


if __name__ == "__main__":
    main(sys.argv[1:])
