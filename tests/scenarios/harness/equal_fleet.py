"""Equal processes of one log, as a platform starts them: they take their numbers by themselves."""

import random
import signal
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.scenarios.harness.brokers import LISTENING, START_S, start_broker
from tests.scenarios.harness.fleet import Fleet, Member, await_known
from tests.scenarios.harness.process import Process
from tests.scenarios.harness.series import Place
from tests.servers.child import free_port


@dataclass(slots=True, kw_only=True)
class EqualFleet(Fleet):
    place: Place
    rng: random.Random
    states: Path
    """Where each process has a state directory of its own."""
    starts: int = 0

    def start_more(self, count: int) -> list[int]:
        """The numbers that `count` more processes took, once all serve and all know all.

        Each begins without state, as in a container that was not there before.
        """
        ports = [free_port(self.rng) for _ in range(count)]
        started = [self._start(port) for port in ports]
        numbers = []
        for port, process in zip(ports, started, strict=True):
            number = int(process.wait_for(rf"broker (\d+) epoch \d+{LISTENING}")[1])
            assert number not in self.members, f"two brokers of number {number}"
            self.members[number] = Member(number, port, port, self.place, None, process=process)
            numbers.append(number)
        for member in self.members.values():
            await_known(member, sorted(self.members))
        return sorted(numbers)

    def end(self, numbers: Collection[int], by: signal.Signals) -> None:
        """Take these out at once, for good; a SIGTERM ends each in good order."""
        leaving = {number: self.process(number) for number in numbers}
        for process in leaving.values():
            process.send(by)
        for number, process in leaving.items():
            code = process.wait(deadline_s=START_S)
            assert code == (0 if by is signal.SIGTERM else -by), process.lines[-5:]
            self.ended.append(process)
            del self.members[number]

    def _start(self, port: int) -> Process:
        self.starts += 1
        state = self.states / f"state-{self.starts}"
        broker = start_broker(
            self.place.url,
            port=port,
            more=(*self.place.broker, "--broker", "auto", "--state-dir", str(state), *self.more),
            environment=self.place.environment,
        )
        return self.stack.enter_context(broker)


@contextmanager
def equal_fleet(
    place: Place, count: int, rng: random.Random, states: Path, *, more: Sequence[str] = ()
) -> Iterator[EqualFleet]:
    """`count` equal processes, all up."""
    with ExitStack() as stack:
        brokers = EqualFleet({}, stack, more, place=place, rng=rng, states=states)
        brokers.start_more(count)
        try:
            yield brokers
        except AssertionError as error:
            error.add_note(brokers.last_words())
            raise
