"""Has the chain been sealed? The owner looks beyond its own puts whose answers are late or lost."""

import pytest

from logstore.errors import Corrupt
from logstore.formats.keys import segment_key
from logstore.protocol.chain.find_seal import find_seal
from logstore.testing.virtual_loop import run
from tests.golden.samples import EPOCH
from tests.logstore.protocol.built import BuiltChain


def is_sealed(chain: BuiltChain, from_seq: int) -> bool:
    return run(chain.runner.run(find_seal(EPOCH, from_seq)))


def opened() -> BuiltChain:
    chain = BuiltChain()
    chain.add_opening()
    chain.add_take()
    return chain


def test_a_chain_that_goes_on_has_no_seal() -> None:
    assert not is_sealed(opened(), 2)


def test_a_seal_is_found_where_the_owner_would_put_next() -> None:
    chain = opened()
    chain.add_seal()

    assert is_sealed(chain, 2)


@pytest.mark.parametrize("late_puts", [1, 2, 8])
def test_a_seal_is_found_behind_the_owners_own_late_puts(late_puts: int) -> None:
    """They are stored, and the owner does not know it yet."""
    chain = opened()
    for _ in range(late_puts):
        chain.add_batches(1)
    assert not is_sealed(chain, 2)
    chain.add_seal()

    assert is_sealed(chain, 2)


def test_a_seal_behind_a_gap_is_none() -> None:
    """It is not of this chain: before the next takeover it is void."""
    chain = opened()
    chain.seq += 1
    chain.add_seal()

    assert not is_sealed(chain, 2)


def test_rubbish_at_the_next_seq_is_reported() -> None:
    chain = opened()
    chain.objects.create(segment_key(EPOCH, 2), [b"rubbish" * 20])

    with pytest.raises(Corrupt):
        is_sealed(chain, 2)
