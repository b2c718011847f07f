"""The native codec is chosen when it is there and wanted, and bears any use of it."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from logstore.records import native
from logstore.records.batch import HEADER_BYTES
from logstore.records.digests import digests_of
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from tests.logstore.records.strategies import NOW_MS

if native.codec is None:
    pytest.skip("the native codec is not built here", allow_module_level=True)

LIMITS = {"rows_max": 100, "bytes_max": 1 << 20, "payload_bytes_max": 1 << 20, "row_bytes": 32}
COLUMN_COUNT = 17


def batch(base_offset: int = 0, count: int = 3, **options: Any) -> bytes:
    records = [Record(i, NOW_MS, b"key", b"value") for i in range(count)]
    return encode_batch(records, base_offset=base_offset, **options)


@pytest.fixture
def new_decoder(codec: native.Codec) -> Callable[..., native.Decoder]:
    return lambda **options: codec.Decoder(**({"start": 0, "end": 2**40} | LIMITS | options))


def chosen(wanted: str) -> str:
    program = "from logstore.records import native; print(native.codec is not None)"
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "LOGSTORE_NATIVE": wanted},
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout.strip()


def test_it_is_chosen_where_it_is_built(codec: native.Codec) -> None:
    assert codec.INTERFACE == native.INTERFACE
    assert chosen("") == "True"


def test_it_can_be_switched_off() -> None:
    assert chosen("0") == "False"


def test_a_build_of_another_interface_is_not_used(
    codec: native.Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "INTERFACE", codec.INTERFACE + 1)

    assert native._chosen() is None


def test_verdicts_say_what_became_of_a_batch(
    codec: native.Codec, new_decoder: Callable[..., native.Decoder]
) -> None:
    decoder = new_decoder(start=10, rows_max=6)
    damaged = batch(30)[:-1] + b"x"

    assert decoder.add(batch(0)) == codec.SKIPPED
    assert decoder.add(batch(20, control=True)) == codec.SKIPPED
    assert decoder.add(batch(20)) == codec.TAKEN
    assert decoder.add(batch(10)) == codec.OUT_OF_ORDER
    assert decoder.add(damaged) == codec.REFUSED
    assert decoder.add(batch(30, compression="gzip")) == codec.PACKED
    assert decoder.add(batch(30)) == codec.TAKEN
    assert decoder.add(batch(40)) == codec.FULL
    assert decoder.add(b"") == codec.REFUSED


EXACT_BYTES = (24, 24, 24, 12, 12, 1, 16, 9, 1, 16, 15, 16, 4, 0, 0, 4, 0)  # for three records


@pytest.mark.parametrize("short", [i for i, size in enumerate(EXACT_BYTES) if size])
def test_a_buffer_that_is_too_short_is_refused(
    new_decoder: Callable[..., native.Decoder], short: int
) -> None:
    decoder = new_decoder()
    decoder.add(batch())
    assert decoder.take() == (3, 0, 9, 0, 15, 0, 0, 0, 0)
    decoder.fill(*(bytearray(size) for size in EXACT_BYTES))
    with pytest.raises(ValueError, match="odd"):
        decoder.fill(*(bytearray(size - (i == short)) for i, size in enumerate(EXACT_BYTES)))


@pytest.mark.parametrize(
    "lent", [(), (None,) * 16, (b"read-only" * 99, *(None,) * 16), (7, *(None,) * 16)]
)
def test_what_is_no_memory_is_refused(
    new_decoder: Callable[..., native.Decoder], lent: tuple[Any, ...]
) -> None:
    decoder = new_decoder()
    decoder.add(batch())
    decoder.take()
    with pytest.raises((TypeError, BufferError)):
        decoder.fill(*lent)


def test_calls_in_another_order_do_no_harm(new_decoder: Callable[..., native.Decoder]) -> None:
    decoder = new_decoder()
    decoder.fill(*[bytearray(400) for _ in range(COLUMN_COUNT)])
    assert decoder.take() is None
    decoder.add(batch())
    decoder.take()
    with pytest.raises(RuntimeError, match="take all rows"):
        decoder.add(batch(10))
    decoder.clear()
    decoder.fill(*[bytearray(400) for _ in range(COLUMN_COUNT)])
    assert decoder.take() is None


@pytest.mark.parametrize(
    "limits", [{"rows_max": 0}, {"bytes_max": 2**31}, {"payload_bytes_max": 2**31}]
)
def test_limits_that_cannot_hold_are_refused(
    new_decoder: Callable[..., native.Decoder], limits: dict[str, int]
) -> None:
    with pytest.raises(ValueError, match="limits"):
        new_decoder(**limits)


def test_a_payload_that_changes_between_reading_and_copying_is_caught(
    new_decoder: Callable[..., native.Decoder],
) -> None:
    """Lengths of headers are the ones that are read twice."""
    data = bytearray(encode_batch([Record(0, NOW_MS, None, None, [("name", b"x" * 20)])]))
    decoder = new_decoder()
    decoder.add(data)
    sizes = decoder.take()
    assert sizes is not None
    _, _, _, _, _, count, name_bytes, _, value_bytes = sizes
    at = data.index(b"name", HEADER_BYTES) - 1
    data[at] = 30  # a name of 15 bytes
    lent: list[bytearray | None] = [None] * 11
    lent += [bytearray(8), bytearray(8), bytearray(name_bytes), bytearray(1), bytearray(8)]
    with pytest.raises(ValueError, match="odd"):
        decoder.fill(*lent, bytearray(value_bytes))
    assert count == 1


def test_two_threads_at_one_decoder_do_no_harm(
    codec: native.Codec, new_decoder: Callable[..., native.Decoder]
) -> None:
    decoder = new_decoder(rows_max=2000, bytes_max=1 << 24)
    large = batch(0, 2000, leader_epoch=1)
    outcomes: list[object] = []

    def use() -> None:
        for _ in range(300):
            try:
                outcomes.append(decoder.add(large))
                outcomes.append(decoder.take())
                decoder.fill(*[None] * COLUMN_COUNT)
                decoder.clear()
            except RuntimeError as error:
                outcomes.append(str(error))

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert codec.TAKEN in outcomes


@pytest.mark.usefixtures("codec")
def test_a_null_has_no_digest() -> None:
    with pytest.raises(ValueError, match="odd"):
        digests_of(pa.array([b"a", None], pa.binary()))
