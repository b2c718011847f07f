"""Starts that do not go well: after a fence they are tried again, and a signal ends any of them."""

import asyncio
import logging
import os
import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from broker.process.life import AGAIN_FIRST_S
from broker.process.serve import ServeSettings, serve
from logstore.errors import ConditionFailed, LogstoreError, OutcomeUnknown, Retryable
from logstore.formats.broker_row import BROKER
from logstore.formats.chain_row import CHAIN, ChainStatus
from logstore.formats.cluster_row import CLUSTER
from logstore.formats.lease_row import LEASE
from logstore.ports.registry import Condition, Registry, Row
from logstore.wiring.open import OpenLog

pytestmark = pytest.mark.slow

HEARTBEAT = "heartbeat"
LONG_S = 5.0


@pytest.fixture(autouse=True)
def _log_lines_as_they_were() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


class Fateful:
    """A registry that fences the first life of a broker, troubles the starts after it, and asks
    this process to stop once there is a second life. `draw_count`: reads of the next epoch, by
    starts that have no chain yet."""

    def __init__(self, registry: Registry, troubles: Sequence[LogstoreError]) -> None:
        self.draw_count = 0
        self.beat_count = 0
        self.has_chain = False
        self._registry = registry
        self._troubles = list(troubles)

    async def get(self, pk: str, sk: str) -> Row | None:
        if pk == CLUSTER and not self.has_chain:
            self.draw_count += 1
            if self.draw_count > 1 and self._troubles:
                raise self._troubles.pop(0)
        return await self._registry.get(pk, sk)

    async def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]:
        return await self._registry.query(pk, prefix)

    async def put_if(self, pk: str, sk: str, row: Row, *conditions: Condition) -> None:
        await self._registry.put_if(pk, sk, row, *conditions)
        self.has_chain |= pk == CHAIN

    async def update_if(self, pk: str, sk: str, sets: Row, *conditions: Condition) -> None:
        if pk == BROKER and HEARTBEAT in sets:
            self.beat_count += 1
            if self.beat_count == 1:
                self.has_chain = False
                raise ConditionFailed("another broker has taken its place", None)
            if self.beat_count == 2:
                os.kill(os.getpid(), signal.SIGTERM)
        await self._registry.update_if(pk, sk, sets, *conditions)

    async def delete_if(self, pk: str, sk: str, *conditions: Condition) -> None:
        await self._registry.delete_if(pk, sk, *conditions)

    async def close(self) -> None:
        await self._registry.close()


class FencedWhileItStarts(Fateful):
    """The first chain's row says that it is fenced as soon as it is there."""

    async def put_if(self, pk: str, sk: str, row: Row, *conditions: Condition) -> None:
        await super().put_if(pk, sk, row, *conditions)
        if pk == CHAIN and self.draw_count == 1:
            self.beat_count, self.has_chain = 1, False
            fenced = {**row, "status": ChainStatus.FENCED.value}
            raise ConditionFailed("an attempt whose answer was lost", fenced)


def serve_on(
    directory: Path, made: list[Fateful], kind: type[Fateful], *troubles: LogstoreError
) -> int:
    def wrap(opened: OpenLog) -> OpenLog:
        made.append(kind(opened.runner.registry, troubles))
        return replace(opened, runner=replace(opened.runner, registry=made[0]))

    return serve(ServeSettings(url=str(directory), listen=("127.0.0.1:0",)), wrap=wrap)


def test_a_start_after_a_fence_is_tried_until_the_registry_answers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    made: list[Fateful] = []
    troubles = (Retryable("the registry is away"), OutcomeUnknown("the registry does not answer"))
    assert serve_on(tmp_path / "log", made, Fateful, *troubles) == 0
    assert made[0].draw_count == 4
    lines = re.findall(
        r"starting again: broker=1 wait_s=([\d.]+) reason=(.*)", capfd.readouterr().err
    )
    assert [reason for _, reason in lines] == [
        "another broker took over its partitions",
        *map(str, troubles),
    ]
    longest_s = [AGAIN_FIRST_S * 2**failures for failures in range(3)]
    waits_s = [float(wait_s) for wait_s, _ in lines]  # as they are printed, rounded
    assert all(one_s <= most_s for one_s, most_s in zip(waits_s, longest_s, strict=True))


def test_a_broker_that_is_fenced_while_it_starts_starts_again(tmp_path: Path) -> None:
    made: list[Fateful] = []
    assert serve_on(tmp_path / "log", made, FencedWhileItStarts) == 0
    assert made[0].draw_count > 1


def test_a_fenced_controller_lets_its_clients_go_before_it_has_given_up_its_lease(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said_by_then = ""

    class CutOff(Fateful):
        """Fences the first life once it is the controller; its lease never changes again."""

        is_controller = False

        async def put_if(self, pk: str, sk: str, row: Row, *conditions: Condition) -> None:
            await super().put_if(pk, sk, row, *conditions)
            self.is_controller |= pk == LEASE

        async def update_if(self, pk: str, sk: str, sets: Row, *conditions: Condition) -> None:
            nonlocal said_by_then
            if pk == BROKER and not self.is_controller:
                await self._registry.update_if(pk, sk, sets, *conditions)
                return
            if pk == LEASE and self.draw_count == 1:
                try:
                    await asyncio.Event().wait()
                finally:
                    logging.getLogger().handlers[0].flush()
                    said_by_then += capfd.readouterr().out
            await super().update_if(pk, sk, sets, *conditions)

    assert serve_on(tmp_path / "log", [], CutOff) == 0
    assert "ended: another broker took over its partitions" in said_by_then


def test_a_first_start_is_given_up_at_once_so_that_a_person_can_look(tmp_path: Path) -> None:
    class Away(Fateful):
        async def get(self, pk: str, sk: str) -> Row | None:
            raise Retryable("the registry is away")

    assert serve_on(tmp_path / "log", [], Away) == 1


def test_a_signal_ends_a_start_that_waits_for_the_registry(tmp_path: Path) -> None:
    class Hanging(Fateful):
        async def get(self, pk: str, sk: str) -> Row | None:
            os.kill(os.getpid(), signal.SIGTERM)
            async with asyncio.timeout(LONG_S):
                await asyncio.Event().wait()
            raise AssertionError("unreachable")

    assert serve_on(tmp_path / "log", [], Hanging) == 0
