"""Positions of many batches' records, as columns: the fast half of decoding for Spark.

Keys and values are not copied out one by one. Each record leaves four positions in `spans`,

    key start, key end, value start, value end        of the data that all batches lie in;

null is an empty span whose row is in `null_keys` or `null_values`. `records.arrow` hands all of
them to Arrow at once, which copies in C.

The loop checks no length by itself: positions only rise, and a record must end where its length
says, the last one where the payload ends. So whatever lies between was inside, and anything else is
a fault, which `records.decode` then finds again, slowly, and names.
"""

from array import array
from typing import NoReturn

from logstore.records.batch import BatchHeader, CorruptBatch, Reason
from logstore.records.decode import decode_payload
from logstore.records.varint import decode_varint


class Columns:
    """Rows of the batches appended so far; all arrays grow together or not at all."""

    __slots__ = (
        "header_counts",
        "header_spans",
        "leader_epochs",
        "null_header_values",
        "null_keys",
        "null_values",
        "offsets",
        "spans",
        "timestamp_types",
        "timestamps",
    )

    def __init__(self) -> None:
        self.offsets = array("q")
        self.timestamps = array("q")  # ms
        self.timestamp_types = array("i")  # 0 create time, 1 log append time
        self.leader_epochs = array("i")
        self.spans = array("i")  # 4 per row
        self.null_keys: list[int] = []  # rows
        self.null_values: list[int] = []  # rows
        self.header_counts = array("i")  # 1 per row
        self.header_spans = array("i")  # 4 per header: of its name and its value
        self.null_header_values: list[int] = []  # headers, counted over all rows

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, header: BatchHeader, data: bytes, at: int, end: int) -> None:
        """Add the records of a batch whose decompressed payload is data[at:end], under 2 GiB.

        Raises `CorruptBatch` as `decode_records` does, and then adds nothing.
        """
        scan = _Scan(len(self.offsets), len(self.header_spans) // 4)
        try:
            scan.run(header, data, at, end)
            timestamps = array("q", scan.timestamps)
            spans, header_spans = array("i", scan.spans), array("i", scan.header_spans)
        except (IndexError, OverflowError, CorruptBatch, UnicodeDecodeError, _Fault) as fault:
            _explain(header, data[at:end], fault)
        count = header.record_count
        if header.is_log_append_time:
            timestamps = array("q", (header.max_timestamp,)) * count
        if count == header.last_offset_delta + 1:  # no gaps
            self.offsets.extend(range(header.base_offset, header.base_offset + count))
        else:
            self.offsets.extend([header.base_offset + delta for delta in scan.deltas])
        self.timestamps.extend(timestamps)
        self.timestamp_types.extend(array("i", (int(header.is_log_append_time),)) * count)
        self.leader_epochs.extend(array("i", (header.leader_epoch,)) * count)
        self.spans.extend(spans)
        self.null_keys += scan.null_keys
        self.null_values += scan.null_values
        self.header_counts.extend(array("i", (0,)) * count)
        for row, headers in scan.header_counts:
            self.header_counts[row] = headers
        self.header_spans.extend(header_spans)
        self.null_header_values += scan.null_header_values


class _Fault(Exception):
    """Something is wrong with a record; `records.decode` says what."""


class _Scan:
    """Columns of one batch; `row` and `header` are the numbers of its first."""

    def __init__(self, row: int, header: int) -> None:
        self.row = row
        self.header = header
        self.deltas: list[int] = []
        self.timestamps: list[int] = []
        self.spans: list[int] = []
        self.null_keys: list[int] = []
        self.null_values: list[int] = []
        self.header_counts: list[tuple[int, int]] = []  # row, headers
        self.header_spans: list[int] = []
        self.null_header_values: list[int] = []

    def run(self, header: BatchHeader, data: bytes, at: int, end: int) -> None:
        """One pass. Varints of one and two bytes are read in place: that is most of the speed."""
        base_timestamp, last_delta = header.base_timestamp, -1
        deltas, timestamps, spans = self.deltas, self.timestamps, self.spans
        for _ in range(header.record_count):
            if (size := data[at]) < 128:
                at += 1
            elif (next_ := data[at + 1]) < 128:
                size += (next_ << 7) - 128
                at += 2
            else:
                size, at = _zigzag(data, at, end)
            stop = at + (size >> 1)
            at += 1  # attributes
            if (time := data[at]) < 128:
                at += 1
            elif (next_ := data[at + 1]) < 128:
                time += (next_ << 7) - 128
                at += 2
            else:
                time, at = _zigzag(data, at, end)
            timestamps.append(base_timestamp + (time >> 1 ^ -(time & 1)))
            if (delta := data[at]) < 128:
                at += 1
            elif (next_ := data[at + 1]) < 128:
                delta += (next_ << 7) - 128
                at += 2
            else:
                delta, at = _zigzag(data, at, end)
            if delta <= last_delta:
                raise _Fault
            deltas.append(delta)
            last_delta = delta
            if (key := data[at]) < 128:
                at += 1
            elif (next_ := data[at + 1]) < 128:
                key += (next_ << 7) - 128
                at += 2
            else:
                key, at = _zigzag(data, at, end)
            if key & 1:
                self._null(key, self.null_keys)
                key = 0
            key_start = at
            at += key >> 1
            key_end = at
            if (value := data[at]) < 128:
                at += 1
            elif (next_ := data[at + 1]) < 128:
                value += (next_ << 7) - 128
                at += 2
            else:
                value, at = _zigzag(data, at, end)
            if value & 1:
                self._null(value, self.null_values)
                value = 0
            value_start = at
            at += value >> 1
            spans += (key_start, key_end, value_start, at)
            if headers := data[at]:
                at = self._scan_headers(data, at, stop)
            else:
                at += 1
            if at != stop or (size | delta ) & 1:
                raise _Fault
        if at != end or last_delta >> 1 > header.last_offset_delta:
            raise _Fault

    def _null(self, size: int, rows: list[int]) -> None:
        if size != 1:
            raise _Fault
        rows.append(self.row + len(self.deltas) - 1)

    def _scan_headers(self, data: bytes, at: int, stop: int) -> int:
        count, at = decode_varint(data, at, stop)
        if not 0 < count <= stop - at:
            raise _Fault
        self.header_counts.append((self.row + len(self.deltas) - 1, count))
        for _ in range(count):
            name, at = decode_varint(data, at, stop)
            if name < 0: raise _Fault
            start=at
            at += name
            if not data[start:at].isascii():
                data[start:at].decode()
            end = at
            value, at = decode_varint(data, at, stop)
            if value < 0:
                if value != -1: raise _Fault
                self.null_header_values.append(self.header + len(self.header_spans)//4)
                value=0
            self.header_spans += (start, end, at, at+value)
            at += value
        return at

def _zigzag(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A varint of three bytes or more, as it is written."""
    value, at = decode_varint(data, at, end)
    return value << 1 if value >= 0 else ~(value << 1), at


def _explain(header: BatchHeader, payload: bytes, fault: Exception) -> NoReturn:
    decode_payload(header, payload)
    raise CorruptBatch(Reason.BAD_RECORD, 0, "records were refused, then read") from fault
