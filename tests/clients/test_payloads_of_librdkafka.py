"""librdkafka reads every payload that Produce takes, and reads the same records."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from logstore.records.batch import Codec
from logstore.records.decode import decode_records
from logstore.records.lookup import LOOKUP_BYTES_MAX
from logstore.records.record import Record
from tests.broker.running import Running, produce, running_broker
from tests.clients.payloads.frames import FORMS, SEPARATOR, some_frame
from tests.clients.payloads.judges import digest_of_records, our_verdict

pytestmark = pytest.mark.clients

FRAMES = 500
EACH_FORM = 4
READ_S = 60.0
OF_ATTRIBUTES = "attributes of a record"
"""Where they have the bit of LogAppendTime librdkafka shows the batch's largest timestamp; no other
client looks at them."""

CONFIGS = {"message.timestamp.after.max.ms": str(2**63 - 1), "max.message.bytes": str(1 << 26)}


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with running_broker() as broker:
        yield broker


def taken(codec: Codec) -> Iterator[bytes]:
    """Some batches of each form that Produce takes, whole or damaged."""
    met = Counter[str]()
    for number in range(FRAMES):
        frame = some_frame(21, number, codec)
        form, _, fault = frame.kind.partition(SEPARATOR)
        if fault == OF_ATTRIBUTES:
            continue
        if met[form] < EACH_FORM and our_verdict(frame.batch).digest:
            met[form] += 1
            yield frame.batch


@pytest.mark.parametrize("codec", FORMS)
def test_librdkafka_reads_what_produce_takes(codec: Codec, running: Running) -> None:
    topic = f"payloads-{codec}"
    running.create_topic(topic, configs=CONFIGS)
    stored: list[Record] = []
    with running.connect() as client:
        for batch in taken(codec):
            answer = produce(client, topic, batch)
            assert not answer.error_code, answer.error_message
            records = decode_records(batch, max_bytes=LOOKUP_BYTES_MAX)
            stored += [
                record._replace(offset_delta=answer.base_offset + record.offset_delta)
                for record in records
            ]

    ran = subprocess.run(
        [
            *(sys.executable, "-m", "tests.clients.payloads.librdkafka_reader"),
            *(f"127.0.0.1:{running.listener.port}", topic, str(len(stored))),
        ],
        capture_output=True,
        text=True,
        timeout=READ_S,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout == digest_of_records(stored)
