"""A process that has met no broker finds one within seconds, or says where it looked."""

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from logstore.errors import Retryable
from logstore.staging.brokers import BrokerAddress
from logstore.staging.reach import REACH_S, reach_broker
from tests.spark_source.stepped_time import SteppedTime

DEADLINE_S = 10.0


class Answering:
    is_closed = False

    def call(self, key: int, request: Any, version: int | None = None, /) -> None:
        """Any answer is one."""

    def close(self) -> None:
        """There is nothing to close."""


def refuse(host: str, port: int, timeout_s: float) -> Answering:
    raise Retryable(f"cannot connect to {host}:{port}: connection refused")


def reach(
    time: SteppedTime,
    addresses: Callable[[], Sequence[BrokerAddress]],
    open_connection: Callable[[str, int, float], Answering] = refuse,
) -> None:
    reach_broker(
        addresses,
        clock=time,
        rng=random.Random(1),
        sleep_s=time.pass_s,
        open_connection=open_connection,
    )


def named(*hosts: str) -> list[BrokerAddress]:
    return [BrokerAddress(host, 9092) for host in hosts]


def test_where_no_broker_answers_the_addresses_are_named_within_five_seconds() -> None:
    time = SteppedTime()
    with pytest.raises(Retryable) as error:
        reach(time, lambda: named("a", "b"))

    assert REACH_S / 2 < time.passed_s < 5
    text = str(error.value)
    assert text.startswith("no broker answers: addresses=a:9092,b:9092 within_s=4 last=cannot")
    assert "start one with logstore serve" in text and "kafka.bootstrap.servers" in text
    assert "\n" not in text


def test_a_log_without_brokers_and_a_registry_that_is_away_say_so() -> None:
    with pytest.raises(Retryable, match=r"addresses=none .* last=the registry names none"):
        reach(SteppedTime(), list)

    def away() -> Sequence[BrokerAddress]:
        raise Retryable("no answer of the registry")

    with pytest.raises(Retryable, match="last=no answer of the registry"):
        reach(SteppedTime(), away)


def test_of_many_addresses_some_are_named() -> None:
    with pytest.raises(Retryable, match=r"e:9092 and 2 more within_s"):
        reach(SteppedTime(), lambda: named(*"abcdefg"))


def test_a_broker_that_starts_in_the_time_is_reached() -> None:
    time = SteppedTime()

    def later(host: str, port: int, timeout_s: float) -> Answering:
        return Answering() if time.passed_s > 2 else refuse(host, port, timeout_s)

    reach(time, lambda: named("a"), later)
    assert 2 < time.passed_s < 5


def test_an_address_that_drops_all_packets_holds_up_no_other() -> None:
    ended = threading.Event()

    def half(host: str, port: int, timeout_s: float) -> Answering:
        assert 0 < timeout_s <= REACH_S
        if host == "silent":
            assert ended.wait(DEADLINE_S)
            return refuse(host, port, timeout_s)
        return Answering()

    time = SteppedTime()
    reach(time, lambda: named("silent", "well"), half)
    ended.set()
    assert time.passed_s == 0
