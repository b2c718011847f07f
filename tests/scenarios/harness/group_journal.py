"""What members of a group did and when: a line of JSON each, so that a kill -9 loses none.

    {"at": 12.345, "did": "read", "parts": [[partition, first, last], …]}

    assigned, revoked    parts [[partition]]; what the client was given, and what it gave up or lost
    read                 parts [[partition, first offset, last offset]]
    commits              parts [[partition, offset]]: it is about to commit these
    committed, refused   the same, once it was answered

`at` is the machine's monotonic clock. Java's verifiable consumer says the same things in its own
words, with the wall clock's milliseconds; `of_java` turns them into these.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DID = ("assigned", "revoked", "read", "commits", "committed", "refused")
Part = Sequence[int]


@dataclass(frozen=True, slots=True)
class Deed:
    member: str
    at_s: float
    did: str
    parts: Sequence[Part]


class MemberJournal:
    """Written to at once: the bytes are the kernel's when a call returns."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, did: str, parts: Iterable[Part]) -> None:
        line = {"at": time.monotonic(), "did": did, "parts": [list(part) for part in parts]}
        os.write(self._file, json.dumps(line).encode() + b"\n")


def read_member(member: str, path: Path) -> Iterator[Deed]:
    """Without the line that is being written, if the member lives."""
    if not path.exists():  # killed before it began
        return
    *lines, _ = path.read_text().split("\n")
    for line in lines:
        deed = json.loads(line)
        yield Deed(member, deed["at"], deed["did"], deed["parts"])


def of_java(member: str, lines: Iterable[str]) -> Iterator[Deed]:
    """It commits what it has read at once, so a reading is also the beginning of a commit."""
    wall_ahead_s = time.time() - time.monotonic()
    for line in lines:
        if not line.startswith("{"):
            continue
        event: dict[str, Any] = json.loads(line)
        at_s = event["timestamp"] / 1000 - wall_ahead_s
        match event["name"]:
            case "partitions_assigned" | "partitions_revoked":
                did = event["name"].removeprefix("partitions_")
                yield Deed(member, at_s, did, [[p["partition"]] for p in event["partitions"]])
            case "records_consumed":
                read = [
                    [p["partition"], p["minOffset"], p["maxOffset"]] for p in event["partitions"]
                ]
                yield Deed(member, at_s, "read", read)
                yield Deed(member, at_s, "commits", [[p, last + 1] for p, _, last in read])
            case "offsets_committed":
                did = "committed" if event["success"] else "refused"
                offsets = [[p["partition"], p["offset"]] for p in event["offsets"]]
                # Its clock was cut down to milliseconds: say late rather than early.
                yield Deed(member, at_s + 0.002, did, offsets)
            case _:
                pass
