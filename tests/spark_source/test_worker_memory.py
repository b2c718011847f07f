"""A worker's memory is settled once, whatever C library it has."""

import gc

import pytest

from spark_source.worker_memory import settle


@pytest.mark.slow
def test_imports_stay_out_of_garbage_collection() -> None:
    gc.unfreeze()
    settle.cache_clear()
    try:
        settle()

        assert gc.get_freeze_count() > 0
        gc.unfreeze()
        settle()
        assert gc.get_freeze_count() == 0  # once is enough
    finally:
        gc.unfreeze()
