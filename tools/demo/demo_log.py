"""Where the demo's log is, and how it is reached: in its own directory, or where a URL says."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class DemoLog:
    """`storage` are `storage.*` settings, which hold no credentials."""

    url: str
    storage: Mapping[str, str] = field(default_factory=dict)
    registry: str | None = None
    """As `logstore init` takes it; it is not needed afterwards."""

    needs_init: bool = True
    ends_with_demo: bool = False
    """It is on servers that stop when the demo does."""

    @classmethod
    def in_directory(cls, directory: Path) -> "DemoLog":
        return cls(str(directory), needs_init=False)

    @property
    def arguments(self) -> list[str]:
        """For brokers and for the commands that open a log."""
        settings = [f"{name}={value}" for name, value in sorted(self.storage.items())]
        return ["--url", self.url, *(word for text in settings for word in ("--set", text))]

    @property
    def command_line(self) -> str:
        return shlex.join(self.arguments)

    def to_json(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "storage": dict(self.storage),
            "needs_init": self.needs_init,
            "ends_with_demo": self.ends_with_demo,
        }

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> "DemoLog":
        """Raises `KeyError`, `TypeError` or `ValueError` for what `to_json` did not give."""
        return cls(
            url=str(value["url"]),
            storage={str(name): str(text) for name, text in value["storage"].items()},
            needs_init=bool(value["needs_init"]),
            ends_with_demo=bool(value["ends_with_demo"]),
        )
