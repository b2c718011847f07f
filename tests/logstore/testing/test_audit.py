"""The audit of a stored log judges what readers use, and nothing that waits for its deletion."""

import pytest

from logstore.errors import Corrupt
from logstore.formats.chain_row import CHAIN, ChainRow, chain_sk
from logstore.formats.keys import CHECKPOINTS
from logstore.formats.partition_row import partition_pk, partition_sk
from logstore.protocol.deletion.trimming import Trimmer, every
from logstore.testing.audit import audit
from logstore.testing.simulated_rows import at_once
from logstore.testing.virtual_loop import EPOCH_MS
from tests.logstore.raised import raised_to
from tests.logstore.restore.test_restore import cluster_id
from tests.logstore.written import WrittenLog


async def trimmed_in_part() -> WrittenLog:
    """Chain 1: its trim point is published between its checkpoints, and nothing is deleted yet."""
    written = WrittenLog(checkpoint_segments=3)
    async with written.life() as log:
        topic = await log.create_topic("orders", 1, {})
        for _ in range(10):
            await written.write(log, log.topics["orders"].leaders[0], [EPOCH_MS])
    place = partition_pk(topic.topic_id, 0), partition_sk(topic.topic_id, 0)
    at_once(written.rows.update_if(*place, raised_to(6), [], "deleted"))
    await written.runner.run(Trimmer(cluster_id(written)).steps(every))
    return written


def flip_a_bit(written: WrittenLog, key: str) -> None:
    data = bytearray(written.objects.get(key))
    data[len(data) // 2] ^= 1
    written.objects.delete(key)
    written.objects.create(key, [bytes(data)])


async def test_a_damaged_checkpoint_counts_from_the_trim_point_on() -> None:
    written = await trimmed_in_part()
    row = at_once(written.rows.get(CHAIN, chain_sk(1)))
    assert row is not None
    trim = ChainRow.of(row).trim
    keys = [info.key for info in written.objects.list(f"{CHECKPOINTS}{1:020d}/")]
    below = [key for key in keys if int(key.split("/")[-1]) < trim]
    assert below
    assert len(keys) > len(below)
    for key in below:
        flip_a_bit(written, key)
    assert not audit(written.objects, written.rows).violations
    flip_a_bit(written, keys[-1])
    with pytest.raises(Corrupt, match="checkpoint fails its checksum"):
        audit(written.objects, written.rows)
