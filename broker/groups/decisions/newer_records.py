"""Records that a newer version wrote into `__consumer_offsets`: kept byte for byte. Pure.

After an upgrade that was rolled back they are there: keys of versions that we do not know (KIP-848
and later kinds of group), and values of newer versions under keys that we know. Compaction by key
would lose them, so a coordinator writes them again as they are. It does not know what their groups
were promised: until a version that does coordinates them, each request for them is answered with
a retriable error. A group begun from nothing would be given offsets that it has already worked on.
"""

from collections import Counter
from typing import NamedTuple

from broker.groups.decisions.fields import FieldReader
from broker.groups.decisions.formats import Key
from logstore.errors import Corrupt

BYTES_MAX = 64 * 1024 * 1024
"""Of one partition. With more, nothing is written again and its log start stays."""
RECORD_BYTES = 300
"""Approximate bytes that one takes in memory beside its own."""


class NewerRecord(NamedTuple):
    key: bytes
    value: bytes | None
    """None deletes the key."""
    group: str | None
    """Its group, as far as that can be read."""
    known: Key | None = None
    """The key, if only the value is of a newer version."""

    @property
    def byte_count(self) -> int:
        return RECORD_BYTES + len(self.key) + len(self.value or b"")


def newer_key(key: bytes, value: bytes | None) -> NewerRecord:
    """A record with a key of a version that we do not know."""
    fields = FieldReader(key)
    try:
        fields.int16()
        group = fields.nullable_string()  # the first field of all kinds of key that there are
    except Corrupt:
        group = None
    return NewerRecord(key, value, group)


class NewerRecords:
    """The last one of each key."""

    def __init__(self) -> None:
        self.byte_count = 0
        self.is_whole = True
        """Whether all of them are here; False: there are too many."""
        self._records: dict[Key | bytes, NewerRecord] = {}
        self._groups: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._records)

    def holds(self, group_id: str) -> bool:
        """Whether a record of the group is among them."""
        return group_id in self._groups

    @property
    def groups(self) -> list[str]:
        return sorted(self._groups)

    def all(self) -> list[NewerRecord]:
        return list(self._records.values())

    def apply(self, record: NewerRecord) -> None:
        place = record.key if record.known is None else record.known
        self.drop(place)
        if record.value is None:
            return
        if self.byte_count + record.byte_count > BYTES_MAX:
            self.is_whole = False
            record = record._replace(value=b"")
        self._records[place] = record
        self.byte_count += record.byte_count
        if record.group is not None:
            self._groups[record.group] += 1

    def drop(self, place: Key | bytes) -> None:
        """Something that we can read has taken its place, or it was deleted."""
        gone = self._records.pop(place, None)
        if gone is None:
            return
        self.byte_count -= gone.byte_count
        if gone.group is not None:
            self._groups[gone.group] -= 1
            if not self._groups[gone.group]:
                del self._groups[gone.group]
