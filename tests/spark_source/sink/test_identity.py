"""Which sink a stream's batches are of: a checkpoint's, and the name that it goes by."""

from logstore.formats.staging_keys import SinkBatch, sink_hash
from spark_source.sink.executor import stream_batch

OLD, NEW = "c8b3a6ae-5f0c-4a4b-9d7e-6a0b8f0c1d2e", "11111111-5f0c-4a4b-9d7e-6a0b8f0c1d2e"


def test_another_checkpoint_is_another_sink_whatever_the_sink_id() -> None:
    assert stream_batch("orders", OLD, 3) == stream_batch("orders", OLD, 3)
    for name in ("orders", None):
        assert stream_batch(name, OLD, 0)[0].sink != stream_batch(name, NEW, 0)[0].sink
    assert stream_batch("orders", OLD, 0)[0].sink != stream_batch("again", OLD, 0)[0].sink


def test_a_batch_is_also_known_by_what_releases_before_called_its_sink() -> None:
    assert stream_batch("orders", OLD, 7)[1] == SinkBatch(sink_hash("orders"), 7)
    assert stream_batch(None, OLD, 7) == (SinkBatch(sink_hash(OLD), 7), None)
