"""The commit of a batch: fix its manifest, then have every partition adopted, until that is done.

Nothing of it is ever undone. A commit that fails half-way, or whose driver dies, is repeated with
the same batch: it finds the manifest, and leaders that have adopted say so.
"""

import random
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from logstore.errors import LogstoreError, Retryable, Unavailable
from logstore.formats.topic_partition import TopicPartition
from logstore.ports.clock import Clock, blocking_sleep_s
from logstore.retry import pause_s
from logstore.staging.adoption import Adopted, Adoption
from logstore.staging.brokers import Brokers
from logstore.staging.manifests import FixedBatch, Manifests, OfferedBatch, row_changes
from logstore.staging.older_sinks import OlderSinks, PassedBatch
from logstore.wire.adopt import ADOPT_KEY, AdoptRequest, AdoptResponse

ADOPT_VERSION = 0
ADOPT_TIMEOUT_S = 120.0
REQUEST_TIMEOUT_S = 30.0
"""How long a leader may take to commit, before it says how far it came."""

LEADERS_TOGETHER = 32


@dataclass(frozen=True, slots=True)
class CommitReport:
    """`is_ours`: whether the attempt that was offered counts, or one that was fixed earlier.

    `rows_differ`: rows of that earlier attempt, and of the one offered, if they are not alike.
    """

    adopted: Mapping[TopicPartition, Adopted]
    is_ours: bool
    rows_differ: tuple[int, int] | None


class BatchCommitter:
    """Commits batches, one at a time."""

    def __init__(
        self,
        manifests: Manifests,
        brokers: Brokers,
        *,
        clock: Clock,
        rng: random.Random,
        sleep_s: Callable[[float], None] = blocking_sleep_s,
        older: OlderSinks | None = None,
    ) -> None:
        """`older` None: no batch has an `older` identity."""
        self._manifests = manifests
        self._brokers = brokers
        self._clock = clock
        self._rng = rng
        self._sleep_s = sleep_s
        self._older = older

    def commit(self, offered: OfferedBatch, *, timeout_s: float = ADOPT_TIMEOUT_S) -> CommitReport:
        """Every row is in the log, exactly once per partition, when it returns.

        Raises `Invalid` where that is impossible, `Retryable` where `timeout_s` passes and no
        leader did any more of it, and what stores raise: the same batch may be committed again.
        """
        rows = offered.rows()
        if not rows:
            return CommitReport({}, True, None)
        found = None if self._older is None else self._older.find(offered)
        if isinstance(found, PassedBatch):
            return CommitReport({}, False, (0, sum(rows.values())))
        fixed = self._manifests.fix(offered) if found is None else FixedBatch(found, False)
        adoption = self._adopt(fixed, timeout_s)
        differ = None if fixed.is_ours else row_changes(fixed.manifest.head.rows, rows)
        return CommitReport(adoption.adopted, fixed.is_ours, differ)

    def _adopt(self, fixed: FixedBatch, timeout_s: float) -> Adoption:
        adoption = Adoption(fixed.manifest)
        deadline_s = self._clock.monotonic_s() + timeout_s
        failures = 0
        while True:
            has_advanced = False
            try:
                has_advanced = self._ask_leaders(adoption, deadline_s)
            except Unavailable as error:
                adoption.trouble = str(error)
                self._brokers.forget_leaders()
            if adoption.is_done:
                return adoption
            failures = 1 if has_advanced else failures + 1
            if has_advanced:
                deadline_s = self._clock.monotonic_s() + timeout_s
            wait_s = pause_s(failures, self._rng)
            if self._clock.monotonic_s() + wait_s > deadline_s:
                raise Retryable(
                    f"the batch is not committed in time: timeout_s={timeout_s:g} "
                    f"manifest={fixed.manifest.key} partitions_left={len(adoption.left)} of "
                    f"{len(fixed.manifest.head.rows)} last={adoption.trouble}; the query goes on "
                    "with this batch when it is started again"
                )
            self._sleep_s(wait_s)

    def _ask_leaders(self, adoption: Adoption, deadline_s: float) -> bool:
        """One request to each leader of what is left, side by side. Whether more is done now.

        Raises the error of one that did not answer, after all others have, if they did no more.
        """
        leaders = self._brokers.leaders(adoption.topic_names())
        adoption.note_topic_ids(self._brokers.topic_ids, self._clock.monotonic_s())
        left_s = max(deadline_s - self._clock.monotonic_s(), 1.0)
        requests = adoption.requests(leaders, int(min(left_s, REQUEST_TIMEOUT_S) * 1000))
        if sum(len(topic.partitions) for one in requests.values() for topic in one.topics) < len(
            adoption.left
        ):
            self._brokers.forget_leaders()
        failure: LogstoreError | None = None
        has_advanced = False
        for answer in self._answers(requests):
            if isinstance(answer, LogstoreError):
                failure = answer
            else:
                noted = adoption.note(answer)
                has_advanced |= noted.has_advanced
                if noted.has_moved:
                    self._brokers.forget_leaders()
        if failure is not None:
            if not has_advanced:
                raise failure
            adoption.trouble = str(failure)
            self._brokers.forget_leaders()
        return has_advanced

    def _answers(self, requests: Mapping[int, AdoptRequest]) -> list[AdoptResponse | LogstoreError]:
        if len(requests) <= 1:
            return [self._ask(*one) for one in requests.items()]
        with ThreadPoolExecutor(min(len(requests), LEADERS_TOGETHER)) as threads:
            return list(threads.map(self._ask, requests, requests.values()))

    def _ask(self, broker: int, request: AdoptRequest) -> AdoptResponse | LogstoreError:
        try:
            response: AdoptResponse = self._brokers.call(broker, ADOPT_KEY, request, ADOPT_VERSION)
            return response
        except LogstoreError as error:
            return error
