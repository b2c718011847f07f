"""Payloads that Java reads and Produce refuses, since another client cannot read them.

Each such refusal is covered by one of these, or it is a difference. One that covers none is
removed: a test fails then. No encoder of a known client writes any of them.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from logstore.records.batch import Codec


class Stricter(NamedTuple):
    codec: Codec | None
    """None: a rule about records, in any codec."""
    refusal: str
    """A pattern of our error's text."""
    who: str
    """Which client stops, and at what."""

    def covers(self, codec: Codec, refusal: str) -> bool:
        return self.codec in (None, codec) and re.search(self.refusal, refusal) is not None


STRICTER: Sequence[Stricter] = (
    Stricter(
        "lz4",
        "; one frame",
        "librdkafka and aiokafka refuse bytes behind a frame, kafka-python passes by a second one",
    ),
    Stricter("lz4", "ERROR_contentChecksum_invalid", "all but Java check the content's checksum"),
    Stricter("lz4", "ERROR_frameSize_wrong", "all but Java check the content's size"),
    Stricter(
        "lz4",
        "a frame without its end mark",
        "to all but Java an end mark with the stored bit is an empty block",
    ),
    Stricter(
        "lz4",
        "a block behind an empty one",
        "all but Java unpack a block behind an empty one, and find bytes behind the last record",
    ),
    Stricter(
        "gzip",
        "unknown header flags",
        "librdkafka's zlib refuses reserved flags, as Arrow's does, with which readers here unpack",
    ),
    Stricter(
        "gzip",
        "; one member",
        "librdkafka reads the first of several members alone, and ends its process at an empty one",
    ),
    Stricter("snappy", "another version than 1", "aiokafka reads streams of version 1 alone"),
    Stricter(
        "snappy",
        "block without length",
        "librdkafka, kafka-python and aiokafka refuse less than a length behind the last block",
    ),
    Stricter(
        "snappy",
        r"block=2186497601 ",
        "librdkafka, kafka-python and aiokafka take the header of a second stream for a length",
    ),
    Stricter(
        "zstd",
        "Truncated compressed stream",
        "librdkafka and aiokafka refuse a last frame that is cut; Java passes a few bytes by",
    ),
    Stricter(
        None,
        r"bad record: length=-\d+ ",
        "lengths below -1 are null to Java alone; librdkafka refuses them",
    ),
    Stricter(
        None,
        "header name is not utf-8",
        "kafka-python and aiokafka raise at names that are not UTF-8",
    ),
    Stricter(
        None,
        r"bad record: timestamp=-?\d+ does not fit",
        "times beyond 64 bits begin again from below in Java, and are what they are in Python",
    ),
    Stricter(
        None,
        r"bad record: offset delta=\d{10,} ",
        "offsets beyond 32 bits lose their upper half in Java alone",
    ),
)
