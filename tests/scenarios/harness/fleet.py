"""Some brokers of one log as processes: started, killed, frozen, cut off and stopped by number.

Each may be behind a swallower, and reach the servers of a bucket through swallowers of its own.
"""

import random
import signal
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from urllib.parse import urlsplit

from confluent_kafka.admin import AdminClient

from logstore.cli.brokers.cluster_calls import Cluster
from logstore.cli.command import BootstrapAddress
from tests.scenarios.harness.brokers import START_S, bootstrap_of, last_words, start_broker
from tests.scenarios.harness.bucket import Bucket
from tests.scenarios.harness.process import ROOT, Process
from tests.scenarios.harness.series import Place
from tests.servers.child import free_port

CONTROLLER = r"this broker is the controller now: broker=(\d+)"


class Server(Enum):
    STORE = "store"
    REGISTRY = "registry"


@dataclass(slots=True)
class Member:
    number: int
    port: int
    advertised: int
    place: Place
    """The way there that this broker is given."""
    proxy: Process | None
    ways: dict[Server, Process] = field(default_factory=dict)
    """Swallowers between this broker and a server."""
    source: Path = ROOT
    """Of the version that its next start runs."""
    process: Process | None = None


@dataclass(slots=True)
class Fleet:
    """`members` by broker number, from 1."""

    members: dict[int, Member]
    stack: ExitStack
    more: Sequence[str] = ()
    launch: Callable[[], Sequence[str]] = tuple
    """Of the next process: the step at which it may die (`launch`)."""
    ended: list[Process] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{member.advertised}" for member in self.members.values())

    def start(self, number: int) -> Process:
        member = self.members[number]
        if member.process is not None:
            self.ended.append(member.process)
        member.process = self._run(member, member.port, "--advertise", _address(member.advertised))
        return member.process

    def start_twin(self, number: int, port: int, state: Path) -> Process:
        """One more process that says it is this broker, with its lock in the directory `state`.

        The caller stops it. Once it runs it counts as `ended`: its lines are among theirs.
        """
        twin = self._run(self.members[number], port, "--state-dir", str(state))
        self.ended.append(twin)
        return twin

    def _run(self, member: Member, port: int, *more: str) -> Process:
        """A process of that broker, once it serves."""
        place = member.place
        broker = start_broker(
            place.url,
            port=port,
            launch=self.launch(),
            more=(*place.broker, "--broker", str(member.number), *more, *self.more),
            environment=place.environment,
            source=member.source,
        )
        self.stack.enter_context(broker)
        bootstrap_of(broker)
        return broker

    def process(self, number: int) -> Process:
        process = self.members[number].process
        assert process is not None, f"broker {number} was never started"
        return process

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def leaders(self, topic: str) -> dict[int, int]:
        """Broker number by partition, as a client learns it now."""
        shown = self.admin().list_topics(topic, timeout=START_S).topics[topic]
        return {number: one.leader for number, one in shown.partitions.items()}

    def controller(self) -> int:
        return int(self.admin().list_topics(timeout=START_S).controller_id)

    def last_words(self) -> str:
        """Of each broker, for the report of a test that failed; all die."""
        running = {number: one.process for number, one in self.members.items() if one.process}
        return "\n".join(f"broker {number} {last_words(one)}" for number, one in running.items())

    def stop_all(self) -> None:
        for member in self.members.values():
            if member.process is not None and member.process.is_alive:
                member.process.send(signal.SIGTERM)
                assert member.process.wait(deadline_s=START_S) == 0, member.process.lines[-5:]


@contextmanager
def fleet(
    place: Place,
    count: int,
    rng: random.Random,
    *,
    swallowed: bool,
    more: Sequence[str] = (),
    launch: Callable[[], Sequence[str]] = tuple,
    bucket: Bucket | None = None,
    cut_off_from: Collection[Server] = (),
    source: Path = ROOT,
) -> Iterator[Fleet]:
    """`count` brokers of one version, all up; with `swallowed` each behind a proxy of its own.

    `cut_off_from`: servers of `bucket` to which each has a proxy of its own too.
    """
    with ExitStack() as stack:
        members = {}
        for number in range(1, count + 1):
            port, proxy = free_port(rng), None
            advertised = port
            if swallowed:
                advertised = free_port(rng)
                proxy = _swallower(stack, _address(advertised), _address(port))
            member = Member(number, port, advertised, place, proxy, source=source)
            members[number] = member
            if cut_off_from:
                assert bucket is not None, "a directory has no servers"
                _cut_off(stack, member, bucket, cut_off_from)
        brokers = Fleet(members, stack, more, launch)
        for number in members:
            brokers.start(number)
        for member in members.values():
            await_known(member, list(members))
        try:
            yield brokers
        except AssertionError as error:
            error.add_note(brokers.last_words())
            raise


def await_known(member: Member, numbers: list[int]) -> None:
    """Until this broker knows all others: a topic made earlier would be placed on some of them."""
    deadline_s = time.monotonic() + START_S
    with Cluster([BootstrapAddress("127.0.0.1", member.port)]) as cluster:
        while (known := cluster.brokers()) != numbers:
            assert time.monotonic() < deadline_s, f"broker {member.number} knows {known}"
            time.sleep(0.05)


def _cut_off(stack: ExitStack, member: Member, bucket: Bucket, servers: Collection[Server]) -> None:
    """Put swallowers on the member's ways to `servers`, in front of what it went through before."""
    urls = {Server.STORE: bucket.objects_proxy, Server.REGISTRY: bucket.rows_proxy}
    for server in servers:
        way = _swallower(stack, _address(0), urlsplit(urls[server]).netloc)
        member.ways[server] = way
        urls[server] = "http://" + way.wait_for("^listening on (.+)$")[1]
    member.place = bucket.place_by(urls[Server.STORE], urls[Server.REGISTRY])


def _swallower(stack: ExitStack, listen: str, upstream: str) -> Process:
    module = "tests.scenarios.harness.swallower"
    proxy = stack.enter_context(Process([module, "--listen", listen, "--upstream", upstream]))
    proxy.wait_for("^listening on ")
    return proxy


def _address(port: int) -> str:
    return f"127.0.0.1:{port}"


def directory_place(directory: Path) -> Place:
    return Place(str(directory / "log"))
