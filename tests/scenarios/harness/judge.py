"""A process that reads the objects and judges: `python -m tests.scenarios.harness.judge`.

Reads every batch of the topic by `logstore.reading.direct.reader`, without a broker, decodes the
records, and compares them with the journals of the load and of the watch. Prints the verdict as one
JSON line.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from logstore.formats.segment_ranges import SegmentRange
from logstore.reading.direct.reader import LogReader
from logstore.reading.direct.segment_fetch import read_batches
from logstore.records.batch import SEQUENCE_MAX, check_batch
from logstore.records.decode import decode_records
from logstore.wiring.open import open_readable
from tests.scenarios.harness.values import decode_value, read_journal
from tests.scenarios.harness.verdict import StoredRecord, judge

RECORDS_BYTES_MAX = 1 << 20


def read_topic(
    url: str, topic: str, storage: Mapping[str, str] | None = None
) -> dict[int, list[StoredRecord]]:
    """Every committed record of the topic, by partition, in the order of the log."""
    log = open_readable(url, storage)
    try:
        reader = LogReader(log)
        topics = {name: row for name, row in reader.topics().items() if name == topic}
        views = reader.partitions(topics)
        segment_ranges = [
            segments
            for key, view in views.items()
            for segments in reader.segment_ranges(key, view.row, view.log_start, view.end)
        ]
        stored: dict[int, list[StoredRecord]] = {key.partition: [] for key in views}
        for chain, mine in sorted(_by_chain(segment_ranges).items()):
            first, last = min(p.first_seq for p in mine), max(p.last_seq for p in mine)
            for found in read_batches(log.runner.store, chain, first, last, mine):
                header = check_batch(found.data, 0, len(found.data))
                key = found.segments.offsets.partition
                for record in decode_records(found.data, max_bytes=RECORDS_BYTES_MAX):
                    stored[key.partition].append(
                        StoredRecord(
                            header.base_offset + record.offset_delta,
                            decode_value(bytes(record.value or b"")),
                            (header.producer_id, header.producer_epoch),
                            (header.base_sequence + record.offset_delta) & SEQUENCE_MAX,
                        )
                    )
        # A partition's chains need not be in the order of their epochs.
        return {number: sorted(records, key=_offset) for number, records in stored.items()}
    finally:
        log.close()


def _offset(record: StoredRecord) -> int:
    return record.offset


def _by_chain(segment_ranges: list[SegmentRange]) -> dict[int, list[SegmentRange]]:
    found = defaultdict(list)
    for segments in segment_ranges:
        found[segments.chain].append(segments)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--watermarks", type=Path, required=True)
    parser.add_argument("--endpoint", help="of the S3 server, for a log in a bucket")
    options = parser.parse_args()
    storage = {"storage.endpoint": options.endpoint} if options.endpoint else {}
    verdict = judge(
        list(read_journal(options.journal)),
        list(read_journal(options.watermarks)),
        read_topic(options.url, options.topic, storage),
    )
    print(verdict.encode())
    return 1 if verdict.anomalies or verdict.failed else 0


if __name__ == "__main__":
    sys.exit(main())
