"""The generator of payloads repeats itself; clients in Python read all that Produce takes of it."""

import warnings
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import pytest

from logstore.records.batch import HEADER_BYTES, Codec
from logstore.records.compression import decompress
from tests.clients.payloads.frames import FORMS, SEPARATOR, each_damage, packed_batch, some_frame
from tests.clients.payloads.judges import our_verdict
from tests.clients.payloads.lz4_frames import xxh32
from tests.clients.payloads.record_bytes import Records

FRAMES = 150
Decoders = Mapping[str, Callable[[bytes], Any]]


@pytest.fixture(scope="module")
def decoders() -> Mapping[str, Decoders]:
    """Of each client, by codec."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's, of importlib
        from aiokafka import codec as of_aiokafka
        from kafka import codec as of_kafka_python
    return {
        client: {codec: getattr(module, f"{codec}_decode") for codec in FORMS}
        for client, module in (("aiokafka", of_aiokafka), ("kafka-python", of_kafka_python))
    }


@pytest.mark.parametrize("codec", FORMS)
def test_python_clients_unpack_all_that_produce_takes(
    codec: Codec, decoders: Mapping[str, Decoders]
) -> None:
    taken = 0
    for number in range(FRAMES):
        batch = some_frame(1, number, codec).batch
        if not our_verdict(batch).digest:
            continue
        taken += 1
        payload = batch[HEADER_BYTES:]
        ours = bytes(decompress(codec, payload, max_bytes=1 << 26))
        for client, by_codec in decoders.items():
            assert by_codec[codec](payload) == ours, f"{client} {codec} frame={number}"
    assert taken > FRAMES // 10


@pytest.mark.parametrize("codec", FORMS)
def test_a_number_is_one_frame(codec: Codec) -> None:
    frames = [some_frame(2, number, codec) for number in range(20)]

    assert frames == [some_frame(2, number, codec) for number in range(20)]
    assert len({frame.batch for frame in frames}) > len(frames) // 2


@pytest.mark.parametrize("codec", FORMS)
def test_small_payloads_are_damaged_at_each_byte(codec: Codec) -> None:
    frames = list(islice(each_damage(0, codec), 300))
    cuts = [frame for frame in frames if f"{SEPARATOR}cut at " in frame.kind]

    assert len({frame.batch for frame in frames}) == len(frames)
    assert [frame.kind.rpartition(" ")[2] for frame in cuts[:9]] == [str(at) for at in range(9)]


def test_a_batch_that_is_read_is_one_that_produce_takes() -> None:
    record = bytes.fromhex("0c000000010000")  # its length, no key, no value

    assert our_verdict(packed_batch("none", record, Records(record, 1))).digest
    assert "INVALID_RECORD" in our_verdict(packed_batch("none", record, Records(record, 2))).why


@pytest.mark.parametrize(("data", "total"), [(b"", 0x02CC5D05), (b"abc", 0x32D153FF)])
def test_checksums_of_lz4_are_those_of_xxhash(data: bytes, total: int) -> None:
    assert xxh32(data) == total
