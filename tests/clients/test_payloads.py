"""Payloads of every codec that Java cannot read are refused, and those that it reads are taken."""

from collections import Counter

import pytest

from logstore.records.batch import Codec
from tests.clients.java_users import why_no_tools
from tests.clients.payloads.differential import Tally, some_frames, table, tallies
from tests.clients.payloads.frames import DAMAGES, FORMS
from tests.clients.payloads.record_bytes import FAULTS
from tests.clients.payloads.stricter import STRICTER, Stricter

pytestmark = pytest.mark.clients

FRAMES = 2_000


@pytest.fixture(scope="module")
def by_codec() -> dict[Codec, Tally]:
    if why_no_tools():
        pytest.skip("Apache Kafka's tools need Java 17 and Maven, once")
    return tallies(some_frames(0, range(FRAMES)))


@pytest.mark.parametrize("codec", FORMS)
def test_produce_takes_what_java_reads_and_nothing_else(
    codec: Codec, by_codec: dict[Codec, Tally]
) -> None:
    tally = by_codec[codec]

    assert not tally.differences, table(by_codec)
    assert min(tally.taken, tally.refused) > FRAMES // 10, table(by_codec)


@pytest.mark.parametrize("codec", FORMS)
def test_every_kind_of_payload_is_tried(codec: Codec, by_codec: dict[Codec, Tally]) -> None:
    assert not {*FORMS[codec], *DAMAGES, *FAULTS} - by_codec[codec].kinds


def test_each_refusal_that_kafka_does_not_know_is_met(by_codec: dict[Codec, Tally]) -> None:
    met = sum((tally.refused_here_alone for tally in by_codec.values()), Counter[Stricter]())

    assert not [rule.who for rule in STRICTER if not met[rule]]
