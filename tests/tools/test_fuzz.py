"""The fuzzer: its inputs reach what they are for, and it notices a codec that is wrong."""

import random
import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.records import native
from tools.fuzz.inputs import some_batches
from tools.fuzz.twins import Disagreement, attack

if native.codec is None:
    pytest.skip("the native codec is not built here", allow_module_level=True)

SLOW_SECONDS = 8


@pytest.fixture(scope="module")
def codec() -> native.Codec:
    assert native.codec is not None
    return native.codec


class Wrong:
    """A codec but for one function."""

    def __init__(self, codec: native.Codec, name: str) -> None:
        self._codec = codec
        self._name = name

    def __getattr__(self, name: str) -> object:
        found = getattr(self._codec, name)
        return getattr(self, f"wrong_{name}") if name == self._name else found

    def wrong_look_up(self, *arguments: object) -> tuple[bool, int, int]:
        return True, 0, 0

    def wrong_encode_rows(self, *arguments: object) -> tuple[bytes, int, int]:
        batch, following, offset = self._codec.encode_rows(*arguments)  # type: ignore[arg-type]
        return batch[:-1] + b"?", following, offset


def played(codec: native.Codec, numbers: Sequence[int]) -> int:
    return sum(attack(random.Random(f"test {number}"), codec) for number in numbers)


def test_the_twins_agree_on_what_the_fuzzer_invents(codec: native.Codec) -> None:
    inputs = range(60)
    read = played(codec, inputs)

    assert len(inputs) / 10 < read < len(inputs), "some are to be read, some to be refused"


@pytest.mark.slow
@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_the_twins_agree_on_what_hypothesis_invents(
    codec: native.Codec, rng: random.Random
) -> None:
    attack(rng, codec)


@pytest.mark.parametrize("name", ["look_up", "encode_rows"])
def test_a_codec_that_is_wrong_is_noticed(codec: native.Codec, name: str) -> None:
    with pytest.raises(Disagreement):
        played(Wrong(codec, name), range(150))  # type: ignore[arg-type]


def test_an_input_follows_from_its_seed() -> None:
    assert some_batches(random.Random("a")) == some_batches(random.Random("a"))
    assert some_batches(random.Random("a")) != some_batches(random.Random("b"))


@pytest.mark.slow
def test_the_twins_agree_for_some_seconds(codec: native.Codec) -> None:
    began, number = time.perf_counter(), 0
    while time.perf_counter() - began < SLOW_SECONDS:
        played(codec, range(10_000 + number, 10_020 + number))
        number += 20
