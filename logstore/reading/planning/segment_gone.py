"""A segment that was deleted after a read was planned."""

from logstore.errors import Retryable


class SegmentGone(Retryable):
    """A segment is not in the store: moved to a table or deleted since; the registry decides."""

    def __init__(self, chain: int, seq: int) -> None:
        super().__init__(
            f"segment is gone: chain={chain} seq={seq}; read the partition's row again"
        )
        self.chain = chain
        self.seq = seq

    def __reduce__(self) -> tuple[type["SegmentGone"], tuple[int, int]]:
        return SegmentGone, (self.chain, self.seq)
