"""Fencing check before definitive answers (a read index): verify that our chain is not sealed.

A broker that cannot renew its lease keeps producing, since a failed put will fence it. But until
then its successor may already lead, so before it answers a read it looks for a seal at the first
seq not known to be stored (safety rule 9): no seal there now means that no takeover had happened
when the request came.
"""

from logstore.errors import NotFound
from logstore.formats.keys import segment_key
from logstore.formats.segment import HEADER_BYTES, SegmentKind, decode_header
from logstore.protocol.chain.walk import get_retrying
from logstore.protocol.steps import Steps


def find_seal(epoch: int, seq: int) -> Steps[bool]:
    """Whether there is a seal at `seq`, or right after the owner's own segments from `seq` on."""
    while True:
        try:
            front = yield from get_retrying(segment_key(epoch, seq), 0, HEADER_BYTES)
        except NotFound:
            return False
        if decode_header(front).kind is SegmentKind.SEAL:
            return True
        seq += 1  # a put of ours whose answer is on its way, or lost
