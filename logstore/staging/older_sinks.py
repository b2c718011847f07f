"""Batches of streams whose sink was its `sinkId` alone, before the query's id was part of it.

Such a sink was shared by all queries that named it, so a new checkpoint's first batches passed for
the old one's. A query that has written so goes on under its new identity, and none of its batches
is written under both. Asked before a batch is fixed, the first time a process commits for a sink:

    GET   manifest of the batch, older identity      this query's: go on with that one
    LIST  manifests of the older identity
    GET   the newest one that is not void            this query's, of a later batch: the checkpoint
                                                     is an older copy, the batch was written
                                                     this query's, of an earlier batch: its driver
                                                     may be about to commit this one, too, so a
                                                     void manifest takes its place
                                                     another query's: not about this one

Later batches of that process cost nothing. Manifests are kept for four weeks, for as long as
leaders would adopt them (`logstore.protocol.sinks.staging_disposal`); then there is nothing to
find.
"""

from collections.abc import Callable, Iterator

from logstore.errors import NotFound
from logstore.formats.manifest import Manifest, ManifestHead, decode_manifest, encode_manifest
from logstore.formats.staged_object import StagedBuilder
from logstore.formats.staging_keys import SinkBatch, place_of, sink_prefix
from logstore.ports.clock import Clock
from logstore.runners.retrying import RetryingStore
from logstore.staging.manifests import OfferedBatch

VOID_ONES_MAX = 8
"""Void manifests at the end of a sink that are passed over."""


class PassedBatch:
    """The batch is one that the query has left behind: a later one was written."""


class OlderSinks:
    """Finds batches under older identities, and remembers the sinks that have none left."""

    def __init__(
        self,
        store: RetryingStore,
        cluster_id: bytes,
        *,
        clock: Clock,
        draw_nonce: Callable[[], bytes],
    ) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._clock = clock
        self._draw_nonce = draw_nonce
        self._new_since: dict[tuple[bytes, str], int] = {}
        """By older sink and query: the first batch that was written under the new identity."""

    def find(self, offered: OfferedBatch) -> Manifest | PassedBatch | None:
        """Returns the manifest of the batch under its older identity; None: it has none, and will
        have none. Raises as stores do, and `Corrupt` for a damaged manifest."""
        older = offered.older
        if older is None:
            return None
        sink = older.sink, offered.query_id
        if older.batch > self._new_since.get(sink, older.batch):
            return None
        found = self._look(older, offered)
        if found is None:
            self._new_since.setdefault(sink, older.batch)
        return found

    def _look(self, older: SinkBatch, offered: OfferedBatch) -> Manifest | PassedBatch | None:
        found = self._read(older)
        if found is not None and _is_of(found, offered.query_id):
            return found
        newest = next(
            (one for one in self._newest_first(older.sink) if one and not one.head.is_void), None
        )
        if newest is None or not _is_of(newest, offered.query_id):
            return None
        if newest.header.seq > older.batch:
            return PassedBatch()
        if found is None:
            self._void(older, offered)
            found = self._read(older)
        return found if found is not None and _is_of(found, offered.query_id) else None

    def _newest_first(self, sink: bytes) -> Iterator[Manifest | None]:
        places = [place_of(info.key) for info in self._store.list(sink_prefix(sink))]
        batches = sorted(place[0] for place in places if place is not None and place[1] is None)
        for batch in reversed(batches[-VOID_ONES_MAX:]):
            yield self._read(batch)

    def _read(self, batch: SinkBatch) -> Manifest | None:
        try:
            data = self._store.get(batch.manifest_key)
        except NotFound:
            return None
        return decode_manifest(data, batch, cluster_id=self._cluster_id)

    def _void(self, batch: SinkBatch, offered: OfferedBatch) -> None:
        """Create a void manifest, unless there is one by now."""
        head = ManifestHead(query_id=offered.query_id, run_id=offered.run_id, rows={}, is_void=True)
        parts = encode_manifest(
            batch,
            head,
            StagedBuilder(),
            cluster_id=self._cluster_id,
            nonce=self._draw_nonce(),
            created_ms=self._clock.now_ms(),
        )
        self._store.create_equal(batch.manifest_key, b"".join(parts))


def _is_of(manifest: Manifest, query_id: str) -> bool:
    return not manifest.head.is_void and manifest.head.query_id == query_id
