"""`logstore fsck` of a log in which sinks stage: its findings stand beside those of the log."""

from pathlib import Path

from logstore.cli.command import FAILED, OK
from logstore.epoch.catalog import Topic
from logstore.formats.partition_row import PartitionRow
from logstore.formats.topic_row import TOPIC, TopicRow
from logstore.objects.directory import DirectoryStore
from logstore.ports.clock import SystemClock
from logstore.protocol.rules.checks import CURES, ProblemKind
from logstore.wiring.open import open_readable
from tests.broker.staging import Staging
from tests.logstore.cli.conftest import Command
from tests.logstore.cli.fsck.test_fsck import fsck

ROW = PartitionRow(broker=1, chain=1, leader_epoch=0, log_start=0, epoch_ranges=(), replicas=(1,))


def stage(log: Path) -> str:
    """A batch with one object and a manifest, for partition 0 of `orders`; the object's key."""
    readable = open_readable(str(log))
    row = readable.rows.get(TOPIC, "orders")
    readable.close()
    assert row is not None
    topic = Topic("orders", TopicRow.of(row).topic_id, {}, 1, [ROW, ROW])
    staging = Staging(readable.identity.cluster_id, topic, "sink")
    staging.created_ms = SystemClock().now_ms()
    ref = staging.task({0: [["a"], ["b"]]})
    store = DirectoryStore(log)
    store.create(ref.name.key(staging.sink_batch), [staging.objects[ref]])
    store.create(staging.sink_batch.manifest_key, [staging.manifest()])
    store.close()
    return ref.name.key(staging.sink_batch)


def test_batches_that_wait_for_their_leaders_are_counted(logstore: Command, written: Path) -> None:
    stage(written)
    answer = fsck(logstore, written, "--data")
    assert answer.code == OK
    counts = answer.json["counts"]
    assert (counts["manifests"], counts["staged"], counts["unnamed"]) == (1, 1, 0)
    text = logstore("fsck", "--url", written).out
    assert "batches of sinks" in text
    assert "1 (staged objects: 1)" in text


def test_a_staged_object_that_is_gone_is_the_only_finding(logstore: Command, written: Path) -> None:
    key = stage(written)
    (written / key).unlink()
    answer = fsck(logstore, written)
    assert answer.code == FAILED
    (problem,) = answer.json["problems"]
    assert (problem["what"], problem["where"]) == (ProblemKind.STAGING.value, key)
    assert problem["repair"] == CURES[ProblemKind.STAGING]
    assert "restore" not in problem["repair"]
