"""What clients that know topics by name were answered, and whether one life at a time can be it.

A name is settled from the answer to a creation until its deletion is sent: all brokers serve that
life then. A request that was sent and answered in between belongs to it:

    N1  lost      a record acknowledged is stored in that life, at its offset, and readable there
    N2  dead      a fetch returns no record of an older life
    N3  offsets   a committed offset is there a moment later, and none of an older life is
    N4  order     what one producer sent lies once in a life, and in the order of its requests
    N5  views     no live broker shows another life, or none, unless it is the first of the name

Nothing is claimed of a name in doubt: an answer to its change is missing, or says no success.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from logstore.testing.history import Partition

NEVER = 1 << 62


@dataclass(slots=True, eq=False)
class Life:
    """One topic of a name. Moments are numbers of events; `answered` is NEVER for a life that was
    found and not answered."""

    name: str
    number: int
    topic_id: bytes
    partitions: int
    asked: int
    answered: int = NEVER
    ended: int = NEVER
    """When its deletion was sent first."""
    is_first: bool = True
    """Of its name: the others return when every live broker knows them."""
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    """The greatest that was acknowledged, by group and partition."""

    def __str__(self) -> str:
        return f"{self.name}#{self.number}"


class Sender(NamedTuple):
    client: str
    is_idempotent: bool


class Acked(NamedTuple):
    life: Life
    partition: int
    offset: int
    value: bytes
    sender: Sender


class Fetched(NamedTuple):
    life: Life
    partition: int
    offset: int
    value: bytes


class Ledger:
    def __init__(self, violate: Callable[[str], None]) -> None:
        self._violate = violate
        self.newest: str | None = None
        """The name that was created last."""
        self._moment = 0
        self._lives: dict[bytes, Life] = {}
        self._settled: dict[str, Life] = {}
        self._acked: list[Acked] = []
        self._acked_at: dict[bytes, int] = {}
        """The moment of the acknowledgement, by value."""
        self._fetched: dict[Fetched, None] = {}
        self._committed_at: dict[int, int] = {}
        """The same, by offset: each is committed once."""

    # The administrator

    def now(self) -> int:
        self._moment += 1
        return self._moment

    def created(self, name: str, topic_id: bytes, partitions: int, asked: int) -> Life:
        """A creation that was sent at `asked` is answered."""
        known = self._lives.get(topic_id)
        if known is not None:
            self._violate(f"a creation was answered with a topic that there was: {known}")
        life = self._add(name, topic_id, partitions, asked)
        life.answered = self.now()
        self._settled[name] = life
        self.newest = name
        return life

    def found(self, name: str, topic_id: bytes, partitions: int) -> Life:
        """A topic is there that no creation was answered with, or that was not deleted in spite of
        its answer, which did not say so."""
        known = self._lives.get(topic_id)
        return known or self._add(name, topic_id, partitions, self.now())

    def _add(self, name: str, topic_id: bytes, partitions: int, asked: int) -> Life:
        life = Life(name, len(self._lives), topic_id, partitions, asked)
        life.is_first = not any(one.name == name for one in self._lives.values())
        self._lives[topic_id] = life
        return life

    def end(self, life: Life) -> None:
        """Its deletion is about to be sent."""
        life.ended = min(life.ended, self.now())
        if self._settled.get(life.name) is life:
            del self._settled[life.name]

    def settled(self, name: str) -> Life | None:
        """The one life that every broker serves under this name; None while it is in doubt."""
        return self._settled.get(name)

    def show(self, sent_in: Life | None, name: str, topic_id: bytes | None, by: str) -> None:
        """A live broker has shown this life of the name; None: it does not know the topic."""
        if sent_in is None or self.settled(name) is not sent_in or sent_in.is_first:
            return
        if topic_id != sent_in.topic_id:
            shown = "none" if topic_id is None else self._lives.get(topic_id) or topic_id.hex()
            self._violate(f"N5: life of {name} is {sent_in}, shown {shown} by {by}")

    # Records

    def ack(
        self,
        sent_in: Life | None,
        name: str,
        partition: int,
        offset: int,
        values: list[bytes],
        sender: Sender,
    ) -> bool:
        """`sent_in` is what was settled when the request was sent; whether anything is claimed."""
        moment = self.now()
        self._acked_at.update(dict.fromkeys(values, moment))
        if sent_in is None or self.settled(name) is not sent_in:
            return False
        for number, value in enumerate(values):
            self._acked.append(Acked(sent_in, partition, offset + number, value, sender))
        return True

    def fetch(self, sent_in: Life | None, partition: int, records: list[tuple[int, bytes]]) -> None:
        """Records of an answer, whenever it came."""
        if sent_in is None:
            return
        for offset, value in records:
            self._fetched[Fetched(sent_in, partition, offset, value)] = None
            if self._acked_at.get(value, NEVER) < sent_in.asked:
                self._violate(
                    f"N2: fetched in {sent_in} partition={partition} offset={offset} "
                    f"value={value!r}, acknowledged before that was created"
                )

    def acked_of(self, life: Life, partition: int) -> dict[int, bytes]:
        """By offset."""
        return {
            one.offset: one.value
            for one in self._acked
            if one.life is life and one.partition == partition
        }

    def read_whole(
        self, life: Life, partition: int, acked: Mapping[int, bytes], read: Mapping[int, bytes]
    ) -> None:
        """All of a partition was read after `acked` were acknowledged."""
        for offset, value in acked.items():
            if read.get(offset) != value:
                self._violate(
                    f"N1: not readable in {life} partition={partition} offset={offset} "
                    f"acknowledged={value!r} read={read.get(offset)!r}"
                )

    # Offsets of groups

    def commit(
        self, sent_in: Life | None, group: str, name: str, partition: int, offset: int
    ) -> bool:
        """An offset was acknowledged; whether anything is claimed."""
        self._committed_at[offset] = self.now()
        if sent_in is None or self.settled(name) is not sent_in:
            return False
        before = sent_in.offsets.get((group, partition), -1)
        sent_in.offsets[group, partition] = max(before, offset)
        return True

    def fetch_offset(
        self,
        sent_in: Life | None,
        group: str,
        name: str,
        partition: int,
        found: int,
        wanted: int,
        in_doubt: set[int],
    ) -> None:
        """`wanted` was acknowledged in that life before the fetch was sent, -1 for none; `in_doubt`
        were sent and not answered."""
        if sent_in is None or self.settled(name) is not sent_in:
            return
        where = f"{sent_in} group={group} partition={partition}"
        if self._committed_at.get(found, NEVER) < sent_in.asked:
            self._violate(f"N3: an offset of an older life in {where} offset={found}")
        elif found < wanted and found not in in_doubt:
            self._violate(f"N3: gone in {where} committed={wanted} found={found}")

    # The end

    def check_end(self, stored: Mapping[Partition, Mapping[int, list[bytes]]]) -> None:
        """Compare with all that is stored, by offset, of every life there was."""
        places: dict[bytes, list[Life]] = {}
        for partition, by_offset in stored.items():
            life = self._lives.get(partition.topic_id)
            if life is None:  # made and deleted while its name was in doubt
                life = Life(partition.topic_id.hex()[:8], NEVER, partition.topic_id, 0, NEVER)
            for values in by_offset.values():
                for value in values:
                    places.setdefault(value, []).append(life)
        for one in self._acked:
            there = stored.get(Partition(one.life.topic_id, one.partition), {})
            if one.value not in there.get(one.offset, ()):
                where = ", ".join(map(str, places.get(one.value, []))) or "nowhere"
                self._violate(
                    f"N1: acknowledged in {one.life} partition={one.partition} "
                    f"offset={one.offset} value={one.value!r}, stored in: {where}"
                )
        for got in self._fetched:
            lives = places.get(got.value, [])
            if not any(life.number >= got.life.number for life in lives):
                where = ", ".join(map(str, lives)) or "no life that is known"
                self._violate(
                    f"N2: fetched in {got.life} partition={got.partition} offset={got.offset} "
                    f"value={got.value!r}, stored in: {where}"
                )
        self._check_order(places)

    def _check_order(self, places: Mapping[bytes, list[Life]]) -> None:
        once = {one.value for one in self._acked if one.sender.is_idempotent}
        for value in sorted(once):
            for life, count in Counter(places.get(value, ())).items():
                if count > 1:
                    self._violate(f"N4: doubled in {life} value={value!r} count={count}")
        lines: dict[tuple[Life, int, Sender], list[int]] = {}
        for one in self._acked:
            lines.setdefault((one.life, one.partition, one.sender), []).append(one.offset)
        for (life, number, sender), offsets in lines.items():
            for earlier, later in pairwise(offsets):
                if later <= earlier:
                    self._violate(
                        f"N4: order in {life} partition={number} sender={sender.client} "
                        f"offset={earlier} before offset={later}"
                    )
