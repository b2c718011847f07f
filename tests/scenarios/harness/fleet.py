"""Some brokers of one log as processes: started, killed, frozen, cut off and stopped by number."""

import random
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.scenarios.harness.brokers import START_S, bootstrap_of, free_port, start_broker
from tests.scenarios.harness.process import Process
from tests.scenarios.harness.series import Place

CONTROLLER = r"this broker is the controller now: broker=(\d+)"


@dataclass(slots=True)
class Member:
    number: int
    port: int
    advertised: int
    proxy: Process | None
    process: Process | None = None


@dataclass(slots=True)
class Fleet:
    """`members` by broker number, from 1; each behind a proxy that can swallow its bytes."""

    place: Place
    members: dict[int, Member]
    stack: ExitStack
    more: Sequence[str] = ()
    ended: list[Process] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{member.advertised}" for member in self.members.values())

    def start(self, number: int) -> Process:
        member = self.members[number]
        broker = start_broker(
            self.place.url,
            port=member.port,
            more=(
                *self.place.broker,
                *("--broker", str(number), "--advertise", f"127.0.0.1:{member.advertised}"),
                *self.more,
            ),
            environment=self.place.environment,
        )
        if member.process is not None:
            self.ended.append(member.process)
        member.process = self.stack.enter_context(broker)
        bootstrap_of(broker)
        return broker

    def process(self, number: int) -> Process:
        process = self.members[number].process
        assert process is not None, f"broker {number} was never started"
        return process

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def leaders(self, topic: str) -> dict[int, int]:
        """Broker number by partition, as a client is told now."""
        shown = self.admin().list_topics(topic, timeout=START_S).topics[topic]
        return {number: one.leader for number, one in shown.partitions.items()}

    def controller(self) -> int:
        return int(self.admin().list_topics(timeout=START_S).controller_id)

    def stop_all(self) -> None:
        for member in self.members.values():
            if member.process is not None and member.process.is_alive:
                member.process.send(signal.SIGTERM)
                assert member.process.wait(deadline_s=START_S) == 0, member.process.lines[-5:]


@contextmanager
def fleet(
    place: Place, count: int, chance: random.Random, *, swallowed: bool, more: Sequence[str] = ()
) -> Iterator[Fleet]:
    """`count` brokers, all up; with `swallowed` each behind a proxy of its own."""
    with ExitStack() as stack:
        members = {}
        for number in range(1, count + 1):
            port, proxy = free_port(chance), None
            advertised = port
            if swallowed:
                advertised = free_port(chance)
                proxy = stack.enter_context(
                    Process(
                        [
                            "tests.scenarios.harness.swallower",
                            *("--listen", f"127.0.0.1:{advertised}"),
                            *("--upstream", f"127.0.0.1:{port}"),
                        ]
                    )
                )
                proxy.wait_for("^listening on ")
            members[number] = Member(number, port, advertised, proxy)
        brokers = Fleet(place, members, stack, more)
        for number in members:
            brokers.start(number)
        yield brokers


def directory_place(directory: Path) -> Place:
    return Place(str(directory / "log"))
