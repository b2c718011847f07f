"""Has somebody sealed this chain? Its owner looks before it says what may be out of date.

A broker that cannot renew its lease goes on, since its next put will tell. But what it is asked for
meanwhile may be its successor's to answer, so it looks at the first seq that it does not know to be
stored (safety rule 9): where there is no seal now, nobody had taken over when the question came.
"""

from logstore.errors import NotFound
from logstore.formats.keys import segment_key
from logstore.formats.segment import HEADER_BYTES, SegmentKind, decode_header
from logstore.protocol.steps import Steps
from logstore.protocol.walk import get_patiently


def find_seal(epoch: int, seq: int) -> Steps[bool]:
    """Whether there is a seal at `seq` or right after what the owner's puts left from there on."""
    while True:
        try:
            front = yield from get_patiently(segment_key(epoch, seq), 0, HEADER_BYTES)
        except NotFound:
            return False
        if decode_header(front).kind is SegmentKind.SEAL:
            return True
        seq += 1  # a put of ours whose answer is on its way, or lost
