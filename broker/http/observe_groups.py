"""Committed offsets and lag of groups: reported by each group's coordinator.

The lag is counted where the partition is led or followed here too. Where it is neither, no broker
is asked for it: high watermarks are metrics of the leaders, so the monitoring system can subtract.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from broker.groups.coordinators import Coordinators
from broker.groups.decisions.group import Group, Phase
from broker.groups.decisions.offsets import Place, find
from broker.http.decisions import catalogue as m
from broker.http.decisions.label_names import OTHER, ShownNames
from broker.http.observed import end_of
from broker.http.reading import Reading
from logstore.epoch.log import Log

AT_ONCE = 256
"""Groups, or partitions of a group, between two chunks."""


class GroupReading:
    """One pass over all groups. Names that are not shown are summed up."""

    def __init__(self, log: Log, topics: ShownNames, groups: ShownNames, series_max: int) -> None:
        self.left_out = 0
        """Partitions of groups that are in no series of their own."""
        self._log = log
        self._topics = topics
        self._names = groups
        self._series_left = series_max
        self._phases = Counter[Phase]()
        self._unknown = 0
        self._other_members: int | None = None
        self._other_lag: dict[tuple[str, str], int] = {}

    def read(self, coordinators: Coordinators) -> Iterator[Sequence[Reading]]:
        groups = [
            group
            for coordinator in coordinators.loaded()
            for group in coordinator.states.groups.values()
        ]
        self._names.renew(group.group_id for group in groups)
        for number, group in enumerate(groups):
            self._phases[group.phase] += 1
            if group.group_id in self._names:
                yield self._members(group)
            else:
                self._other_members = (self._other_members or 0) + len(group.members)
                if number % AT_ONCE == 0:
                    yield ()
            yield from self._offsets(group)
        yield self._sums(is_loading=coordinators.is_loading)

    def _members(self, group: Group) -> list[Reading]:
        label = (self._names.label(group.group_id),)
        return [
            Reading(m.GROUP_MEMBERS, label, len(group.members)),
            Reading(m.GROUP_GENERATION, label, group.generation),
        ]

    def _offsets(self, group: Group) -> Iterator[Sequence[Reading]]:
        places = sorted(group.offsets)
        is_shown = group.group_id in self._names
        for at in range(0, len(places), AT_ONCE):
            readings: list[Reading] = []
            for place in places[at : at + AT_ONCE]:
                self._offset(group, place, readings, is_shown=is_shown)
            yield readings

    def _offset(
        self, group: Group, place: Place, readings: list[Reading], *, is_shown: bool
    ) -> None:
        """No reading for a topic that is deleted, or was created again since."""
        name, number = place
        topic = self._log.topics.get(name)
        committed = None if topic is None else find(group, place, topic.topic_id)
        if topic is None or committed is None:
            return
        end = end_of(topic, number)
        lag = None if end is None else max(0, end - committed.offset)
        self._unknown += lag is None
        if is_shown and name in self._topics and self._series_left > 0:
            self._series_left -= 1
            labels = (self._names.label(group.group_id), name, str(number))
            readings.append(Reading(m.GROUP_COMMITTED, labels, committed.offset))
            if lag is not None:
                readings.append(Reading(m.GROUP_LAG, labels, lag))
            return
        self.left_out += 1
        if lag is not None:
            key = (self._names.label(group.group_id), self._topics.label(name))
            self._other_lag[key] = self._other_lag.get(key, 0) + lag

    def _sums(self, *, is_loading: bool) -> list[Reading]:
        return [
            *(Reading(m.GROUPS, (phase.value,), self._phases[phase]) for phase in Phase),
            Reading(m.GROUPS_LOADING, (), is_loading),
            Reading(m.GROUP_LAG_UNKNOWN, (), self._unknown),
            *(
                []
                if self._other_members is None
                else [Reading(m.GROUP_MEMBERS, (OTHER,), self._other_members)]
            ),
            *(
                Reading(m.GROUP_LAG, (group, topic, OTHER), lag)
                for (group, topic), lag in self._other_lag.items()
            ),
        ]
