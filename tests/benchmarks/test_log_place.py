"""Where the log of a case lies, and what its bucket counts."""

from pathlib import Path

import pytest

from benchmarks.options import Options
from benchmarks.peers.log_place import Fetched, LogPlace, log_place
from logstore.wiring.open import open_objects
from tests.servers.dynamodb_local import why_no_dynamodb_local
from tests.servers.versitygw import why_no_versitygw


def test_a_directory_counts_nothing(tmp_path: Path) -> None:
    with log_place(Options(), tmp_path) as place:
        place.far()

        assert place == LogPlace(str(tmp_path / "data"))
        assert place.arguments == ["--url", str(tmp_path / "data")]
        assert place.fetched() is None


@pytest.mark.slow
def test_a_bucket_counts_gets_and_their_bytes_since_it_is_far(tmp_path: Path) -> None:
    if why_no_versitygw() or why_no_dynamodb_local():
        pytest.skip("a bucket needs versitygw and DynamoDB Local")
    with log_place(Options(store="s3", spreads=("GET=1,2,3,4",)), tmp_path) as place:
        store = open_objects(place.url, place.storage)
        store.create("chains/00/1/1", [bytes(5000)])
        store.get("chains/00/1/1")
        place.far()
        assert place.fetched() == Fetched(0, 0)

        assert store.get("chains/00/1/1") == bytes(5000)
        assert store.get_range("chains/00/1/1", 100, 50) == bytes(50)

        assert place.fetched() == Fetched(2, 5050)
        assert place.segment_count() == 1
        store.close()
