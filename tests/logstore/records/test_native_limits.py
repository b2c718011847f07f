"""Numbers at the ends of their ranges are computed without overflow, as a sanitizer sees it."""

import subprocess
import sys

import pytest

from logstore.records import native
from tools.fuzz import sanitized

pytestmark = pytest.mark.slow

STORY = """
import sys
from contextlib import suppress
from itertools import product
from tools.fuzz import sanitized

sanitized.load(sys.argv[1])
from logstore.errors import LogstoreError
from logstore.records.arrow import decode_to_arrow
from logstore.records.batch import read_header
from logstore.records.encode import encode_batch, with_payload
from logstore.records.lookup import check_records, first_record_at_or_after
from logstore.records.record import Record

LEAST, MOST, DELTA_MAX = -(2**63), 2**63 - 1, 2**31 - 1
BASES = (LEAST, LEAST + 1, -1, 0, MOST - DELTA_MAX - 1, MOST - 1, MOST)
TIMES = (LEAST, LEAST + 1, -1, 0, MOST)
one = encode_batch([Record(0, 1, b"k", b"v")])
tried = 0
for base, delta, time, count in product(BASES, (-1, 0, DELTA_MAX), TIMES, (0, 1)):
    header = read_header(memoryview(one), 0, len(one))
    changed = dict(base_offset=base, last_offset_delta=delta, base_timestamp=time)
    header = header._replace(**changed, max_timestamp=time, record_count=count)
    batch, _ = with_payload(header, "none", one[61:] if count else b"")
    limits = dict(rows_max=9, bytes_max=999, payload_bytes_max=999)
    with suppress(LogstoreError):
        list(decode_to_arrow([batch], start=0, end=MOST, **limits))
    with suppress(LogstoreError):
        first_record_at_or_after(batch, MOST, from_offset=LEAST)
    with suppress(LogstoreError):
        check_records(batch, needs_keys=True, timestamps=(LEAST, MOST), indexes_max=9)
    tried += 1
print(tried)
"""


@pytest.mark.skipif(native.codec is None, reason="the native codec is not built here")
def test_offsets_and_times_at_the_ends_of_64_bits_do_not_overflow() -> None:
    why_not = sanitized.build()
    if why_not and ("-lasan" in why_not or "-lubsan" in why_not):
        pytest.skip("the compiler has no sanitizers here")
    assert not why_not

    ran = subprocess.run(
        [sys.executable, "-c", STORY, str(sanitized.BUILT)],
        env=sanitized.environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr[-3000:]
    assert int(ran.stdout) == 7 * 3 * 5 * 2
