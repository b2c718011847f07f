"""Several broker processes on this machine: start them, show their output, restart dead ones.

One that ends by itself before it ever accepted connections has refused to start: then all end. One
that dies later is started again, after a back-off that grows while it keeps dying.
"""

import asyncio
import random
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from broker.upkeep.exit_reason import exit_reason
from logstore.ports.clock import Clock
from logstore.retry import pause_s

OK, FAILED = 0, 1
BACK_OFF_FIRST_S, BACK_OFF_MAX_S = 0.5, 30.0
STEADY_S = 60.0
"""The death of a process that lived so long counts as a first one."""
LINE_BYTES_MAX = 1 << 20
ACCEPTS = " listening on "

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FleetMember:
    """One broker of the fleet: its number, and the command line that runs it."""

    broker: int
    command: Sequence[str]


def back_off_s(deaths: int, rng: random.Random) -> float:
    """Before start number `deaths` + 1: doubling from half a second, at most half a minute."""
    return pause_s(deaths, rng, BACK_OFF_FIRST_S, BACK_OFF_MAX_S)


class Fleet:
    """`stop` may be called twice: first in good order, then at once."""

    def __init__(self, members: Sequence[FleetMember], clock: Clock, rng: random.Random, say: Say):
        self._members = members
        self._clock = clock
        self._rng = rng
        self._say = say
        self._running: dict[int, asyncio.subprocess.Process] = {}
        self._accepting: set[int] = set()
        self._all_accept = asyncio.Event()
        self._ending = asyncio.Event()
        self._code = OK
        self.is_killed = False

    async def run(self) -> int:
        """Until stopped, or until one refuses to start; the exit code."""
        async with asyncio.TaskGroup() as tasks:
            for member in self._members:
                tasks.create_task(self._keep(member))
            announcer = tasks.create_task(self._announce())
            await self._ending.wait()
            announcer.cancel()
        return self._code

    def stop(self) -> None:
        if self._ending.is_set():
            self.is_killed = True
        self._ending.set()
        self._signal_all(signal.SIGKILL if self.is_killed else signal.SIGTERM)

    def _signal_all(self, number: signal.Signals) -> None:
        for process in self._running.values():
            if process.returncode is None:
                process.send_signal(number)

    async def _announce(self) -> None:
        await self._all_accept.wait()
        self._say(f"logstore: {len(self._members)} brokers accept connections")

    async def _keep(self, member: FleetMember) -> None:
        """One broker, start after start."""
        deaths = 0
        while not self._ending.is_set():
            began_s = self._clock.monotonic_s()
            code = await self._live(member)
            if self._ending.is_set():
                self._note_end(member, code)
                return
            if member.broker not in self._accepting:
                self._say(f"logstore: broker {member.broker} did not start: exit code {code}")
                self._code = FAILED
                self._end_all()
                return
            lived_s = self._clock.monotonic_s() - began_s
            deaths = 1 if lived_s >= STEADY_S else deaths + 1
            delay_s = back_off_s(deaths, self._rng)
            self._say(
                f"logstore: broker {member.broker} died: {exit_reason(code)}; "
                f"it starts again in {delay_s:.1f} s"
            )
            await self._wait_unless_ending(delay_s)

    async def _live(self, member: FleetMember) -> int:
        """One process from start to end; its exit code."""
        process = await asyncio.create_subprocess_exec(
            *member.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LINE_BYTES_MAX,
            start_new_session=True,  # Ctrl-C is ours to pass on
        )
        self._running[member.broker] = process
        if self._ending.is_set():  # it was asked to stop while this one was started
            process.send_signal(signal.SIGKILL if self.is_killed else signal.SIGTERM)
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async with asyncio.TaskGroup() as tasks:
                for stream in (process.stdout, process.stderr):
                    tasks.create_task(self._show(member, stream))
                return await process.wait()
        finally:
            del self._running[member.broker]

    async def _show(self, member: FleetMember, stream: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # longer than the buffer, which has been emptied
                line = b"(a line too long to show)\n"
            if not line:
                return
            text = line.decode(errors="replace").rstrip("\n")
            self._say(f"[{member.broker}] {text}")
            if ACCEPTS in text:
                self._accepting.add(member.broker)
                if len(self._accepting) == len(self._members):
                    self._all_accept.set()

    async def _wait_unless_ending(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._ending.wait()
        except TimeoutError:
            pass

    def _end_all(self) -> None:
        if not self._ending.is_set():
            self.stop()

    def _note_end(self, member: FleetMember, code: int) -> None:
        if code != OK and not self.is_killed:
            self._say(f"logstore: broker {member.broker} ended badly: {exit_reason(code)}")
            self._code = FAILED


def members_of(
    count: int,
    *,
    url: str,
    host: str,
    port: int,
    http: int | None,
    racks: Sequence[str],
    more: Sequence[str],
    flags: Mapping[str, str],
) -> list[FleetMember]:
    """Returns brokers 1 to `count`, on ports `port` up, with pages on ports `http` up if it is
    given; port 0 is any that is free. Racks in turn; `more` goes to all of them.
    """
    members = []
    for number in range(count):
        command = [sys.executable, "-m", "broker", "--url", url, "--broker", str(number + 1)]
        command += ["--listen", _place(host, port, number)]
        if http is not None:
            command += ["--http", _place(host, http, number)]
        if racks:
            command += ["--rack", racks[number % len(racks)]]
        for flag, value in flags.items():
            command += [flag, value]
        members.append(FleetMember(number + 1, [*command, *more]))
    return members


def _place(host: str, first: int, number: int) -> str:
    return f"{host}:{first + number if first else 0}"
