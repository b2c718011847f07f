"""The Dockerfile as stages of instructions, continuations joined."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.scenarios.harness.process import ROOT


@dataclass(slots=True)
class Stage:
    """`lines`: instruction, and the rest of its line."""

    parent: str
    lines: list[tuple[str, str]] = field(default_factory=list)

    def all_of(self, instruction: str) -> list[str]:
        return [rest for name, rest in self.lines if name == instruction]


def read_stages() -> Mapping[str, Stage]:
    """By name; lines before the first FROM, and those of an unnamed stage, are under ""."""
    text = (ROOT / "Dockerfile").read_text()
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    stages = {"": Stage("")}
    name = ""
    for line in filter(None, (line.strip() for line in text.splitlines())):
        instruction, _, rest = line.partition(" ")
        if instruction == "FROM":
            parent, _, name = rest.partition(" AS ")
            stages[name] = Stage(parent)
        else:
            stages[name].lines.append((instruction, " ".join(rest.split())))
    return stages


def line_of(target: str, instruction: str) -> str:
    """The newest such line of `target`, or of a stage that it is made from."""
    stages = read_stages()
    while target in stages:
        if lines := stages[target].all_of(instruction):
            return lines[-1]
        target = stages[target].parent
    raise AssertionError(f"no {instruction} in {target}")


def environment_of(stage: str) -> dict[str, str]:
    """Its own ENV lines."""
    return dict(
        pair.split("=", 1) for line in read_stages()[stage].all_of("ENV") for pair in line.split()
    )
