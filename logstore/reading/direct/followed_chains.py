"""Chains that a reader without a broker knows: open ones are followed, sealed ones looked up.

Steps. Those of different chains may run side by side; two of one chain must not.
"""

from collections.abc import Collection, Sequence

from logstore.errors import LogstoreError
from logstore.formats.chain_row import ChainStatus
from logstore.protocol.chain.follow import Follower
from logstore.protocol.chain.seal import read_chain_row
from logstore.protocol.partitions.epoch_ranges import ChainCheckpoints
from logstore.protocol.partitions.index_cache import IndexCache
from logstore.protocol.rows.metadata import read_brokers
from logstore.protocol.steps import Gather, Steps, results_of


class FollowedChains:
    """`cache` has fronts and index pages of their checkpoints."""

    def __init__(self, cluster_id: bytes, row_age_s_max: float) -> None:
        """`row_age_s_max`: as for `Follower`."""
        self.cache = IndexCache()
        self._cluster_id = cluster_id
        self._row_age_s_max = row_age_s_max
        self._followers: dict[int, Follower] = {}
        self._sealed: set[int] = set()
        self._checkpoints = ChainCheckpoints(self.cache)

    def follower(self, chain: int) -> Follower:
        """The follower of an open chain, which may not have been entered yet."""
        if chain not in self._followers:
            self._followers[chain] = Follower(
                self._cluster_id,
                chain,
                row_age_s_max=self._row_age_s_max,
                started=self.cache.keep_start,
            )
        return self._followers[chain]

    def forget_others(self, chains: Collection[int]) -> None:
        """Keep followers of these chains alone."""
        for chain in set(self._followers).difference(chains):
            del self._followers[chain]

    def advance(self, chains: Collection[int]) -> Steps[int]:
        """Follow these chains, side by side; the number of segments that were new.

        Raises the first error, when all have been followed as far as possible.
        """
        counts: Sequence[int | LogstoreError] = yield Gather(
            [self.follower(chain).advance() for chain in sorted(chains)]
        )
        return sum(results_of(counts))

    def unchanged(self, chains: Collection[int]) -> Steps[set[int]]:
        """Chains of which nothing more was committed at the last heartbeat of their broker."""
        brokers = yield from read_brokers()
        ends = {broker.epoch: broker.committed_end for broker in brokers.values()}
        return {
            chain
            for chain in chains
            if self.follower(chain).is_entered
            and 0 < ends.get(chain, 0) <= self.follower(chain).state.next_seq
        }

    def enter(self, chain: int) -> Steps[Follower | None]:
        """A follower of `chain`, unless it is sealed: then its checkpoints hold all of it.

        A takeover names new leaders before it puts the last checkpoint of the chain it seals, and
        may die between the two.
        """
        if chain not in self._followers and chain not in self._sealed:
            if (yield from read_chain_row(chain)).status is ChainStatus.SEALED:
                self._sealed.add(chain)
            else:
                yield from self.follower(chain).advance()
        return self._followers.get(chain)

    def checkpoints(self, chain: int) -> Steps[Sequence[int]]:
        follower = yield from self.enter(chain)
        if follower is not None:
            seqs = follower.checkpoints
            if seqs:
                self.cache.forget_below(chain, seqs[0])
            return seqs
        return (yield from self._checkpoints.of(chain))
