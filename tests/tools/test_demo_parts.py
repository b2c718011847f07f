"""Parts of the demo that decide: where a record goes, and whether all of them arrived."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.demo.check import Row, faults
from tools.demo.flights import TOTAL, FlightId, read_flights, read_ids
from tools.demo.partitioner import Partitioner, murmur2

IDS = [FlightId("2013-01-01T10:00:00Z", "UA", number) for number in range(6)]
SENT = [Row(number % 2, number // 2 + 10, number // 2, id) for number, id in enumerate(IDS)]


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
    ids=str,
)
def test_keys_are_hashed_as_kafka_does(key: bytes, hashed: int) -> None:
    """The vectors of Kafka's own UtilsTest."""
    assert murmur2(key) == hashed & 0xFFFFFFFF


@given(st.binary(), st.integers(1, 50))
def test_a_key_always_goes_to_one_partition_that_exists(key: bytes, partitions: int) -> None:
    partitioner = Partitioner(partitions)

    assert partitioner.choose(key) == partitioner.choose(key)
    assert 0 <= partitioner.choose(key) < partitions


def test_records_without_a_key_take_turns() -> None:
    partitioner = Partitioner(3)

    assert [partitioner.choose(None) for _ in range(4)] == [0, 1, 2, 0]


def test_flights_are_whole_and_known_by_their_ids() -> None:
    flights = list(read_flights(2_000))

    assert [flight.id for flight in flights] == list(read_ids(2_000))
    first = json.loads(flights[0].value)
    assert FlightId(first["time_hour"], first["carrier"], first["flight"]) == flights[0].id
    assert flights[0].key == first["tailnum"].encode()
    assert Counter(flight.key is None for flight in flights)[True] == sum(
        json.loads(flight.value)["tailnum"] is None for flight in flights
    )


@pytest.mark.slow
def test_the_data_has_as_many_flights_as_it_should_and_no_two_alike() -> None:
    ids = list(read_ids(TOTAL))

    assert len(ids) == len(set(ids)) == TOTAL


def test_nothing_is_wrong_when_all_is_there() -> None:
    assert faults(SENT, IDS) == []
    assert faults(SENT[::-1], IDS) == []


@given(st.integers(0, len(SENT) - 1))
def test_a_missing_flight_is_named(number: int) -> None:
    found = faults([row for row in SENT if row.id != IDS[number]], IDS)

    assert found[0] == f"1 missing flights: UA {number} of 2013-01-01T10:00:00Z"


@given(st.integers(0, len(SENT) - 1))
def test_a_doubled_flight_is_named(number: int) -> None:
    again = SENT[number]._replace(offset=99)

    found = faults([*SENT, again], IDS)

    assert found[0].startswith(f"1 doubled flights: UA {number} of")
    assert "breaks its sequence at offset 99" in found[1]


def test_a_flight_that_was_never_sent_is_named() -> None:
    assert faults([*SENT, Row(0, 99, 3, IDS[0]._replace(flight=77))], IDS) == [
        "1 unknown flights: UA 77 of 2013-01-01T10:00:00Z"
    ]


@given(st.permutations(range(3)).filter(lambda order: order != [0, 1, 2]))
def test_flights_out_of_order_break_the_sequence(order: list[int]) -> None:
    shuffled = [
        row._replace(seq=order[row.seq]) if row.partition == 0 and row.seq is not None else row
        for row in SENT
    ]

    [found] = faults(shuffled, IDS)
    assert found.startswith("partition 0 breaks its sequence at offset")


def test_many_missing_flights_are_counted_and_some_named() -> None:
    assert faults([], IDS) == [
        "6 missing flights: UA 0 of 2013-01-01T10:00:00Z, UA 1 of 2013-01-01T10:00:00Z, "
        "UA 2 of 2013-01-01T10:00:00Z and 3 more"
    ]
