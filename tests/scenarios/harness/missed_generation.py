"""A member of a group misses a generation in which another one read its partition and committed.

    first     leads the group: it assigns, and the member under test need not
    missing   the member under test; its SyncGroup of one generation is held until that is over
    between   joins, gets the partition of `missing`, reads, commits and leaves

Then `missing` gets its partition back, two generations after the last that it knew.
"""

import signal
import time
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Producer

from tests.scenarios.harness.brokers import create_topic
from tests.scenarios.harness.group_journal import Deed, of_java, read_member
from tests.scenarios.harness.process import Process

TOPIC = GROUP = "missed"
PARTITION = 1
"""Of two, by the range assignor: of the second of two members, and of three."""
FIRST, BETWEEN, MISSING = "a-first", "b-between", "c-missing"
"""Client ids: the range assignor goes by member ids, which begin with them."""
RECORDS = 50
SESSION_MS = 20_000
DEADLINE_S = 60.0


class MissedGeneration:
    """Its members, each a process with a journal."""

    def __init__(self, stack: ExitStack, directory: Path, bootstrap: str) -> None:
        self.stack, self.directory, self.bootstrap = stack, directory, bootstrap
        self.members: dict[str, Process] = {}
        self.written = 0

    def add(self, name: str, client: str) -> None:
        arguments = (
            *("tests.scenarios.harness.group_member", "--client", client, "--client-id", name),
            *("--bootstrap", self.bootstrap, "--topic", TOPIC, "--group", GROUP),
            *("--session-ms", str(SESSION_MS), "--journal", str(self._journal(name))),
        )
        self.members[name] = self.stack.enter_context(Process(arguments))

    def write(self) -> int:
        """The offset that one more write ends at."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for _ in range(RECORDS):
            producer.produce(TOPIC, value=b"x", partition=PARTITION)
        assert producer.flush(DEADLINE_S) == 0
        self.written += RECORDS
        return self.written

    def deeds(self, name: str) -> list[Deed]:
        if "java" in self.members[name].command:
            return list(of_java(name, self.members[name].lines))
        return list(read_member(name, self._journal(name)))

    def await_deed(self, name: str, did: str, part: list[int]) -> None:
        deadline_s = time.monotonic() + DEADLINE_S
        while not any(d.did == did and part in d.parts for d in self.deeds(name)):
            self.members[name].require_alive()
            assert time.monotonic() < deadline_s, f"{name} {did} {part}: {self.deeds(name)[-5:]}"
            time.sleep(0.05)

    def leave(self, name: str) -> None:
        self.members[name].send(signal.SIGTERM)
        self.members[name].wait(deadline_s=DEADLINE_S)

    def _journal(self, name: str) -> Path:
        return self.directory / f"{name}.journal"


def first_read_again(client: str, directory: Path, holder: Process) -> int:
    """Where the member begins once it has its partition back; 2 * RECORDS are committed then."""
    bootstrap = holder.wait_for("^listening on (.+)$")[1]
    with ExitStack() as stack:
        create_topic(bootstrap, TOPIC, 2)
        story = MissedGeneration(stack, directory, bootstrap)
        story.add(FIRST, "librdkafka")
        story.await_deed(FIRST, "assigned", [PARTITION])
        story.add(MISSING, client)
        story.await_deed(MISSING, "assigned", [PARTITION])
        story.await_deed(MISSING, "committed", [PARTITION, story.write()])

        holder.say("hold")
        story.add(BETWEEN, "librdkafka")
        holder.wait_for("^held$")
        story.await_deed(BETWEEN, "assigned", [PARTITION])
        story.await_deed(BETWEEN, "committed", [PARTITION, story.write()])
        known = len(story.deeds(MISSING))
        story.leave(BETWEEN)
        holder.say("release")
        story.await_deed(MISSING, "committed", [PARTITION, story.write()])
        again = story.deeds(MISSING)[known:]
    reads = [part for deed in again if deed.did == "read" for part in deed.parts]
    return min(first for partition, first, _ in reads if partition == PARTITION)
