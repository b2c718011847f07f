"""Hands a broker's partitions to others before it stops, also while others stop beside it.

    our row says that we drain → all rows are read → each partition goes to a broker that serves
    → what others have handed to us by then goes on in the next round

Of two brokers that drain at once, one at least reads that the other does: each writes before it
reads. What still arrives at a broker that has stopped is taken over by the controller.
"""

from collections.abc import Callable

from logstore.epoch.catalog import Catalog, LeadershipChanges, Move, Topic
from logstore.epoch.leadership_transitions import LeadershipTransitions
from logstore.epoch.membership import Membership
from logstore.epoch.watch import Watch
from logstore.formats.broker_row import BrokerStatus
from logstore.runners.step_runner import outcome_of

ROUNDS_MAX = 5

Successor = Callable[[Topic, int], int | None]
"""The broker that is to lead a partition of a topic next; None: it stays, until the next broker to
start takes it over."""


async def drain(
    membership: Membership,
    watch: Watch,
    catalog: Catalog,
    leading: LeadershipTransitions,
    successors: Callable[[], Successor],
) -> None:
    """Returns when nothing is left that has a successor. `successors` is asked in each round, with
    the brokers' rows as just read. It waits as long as store and registry are away."""
    await outcome_of(membership.renew(BrokerStatus.DRAINING))
    for _ in range(ROUNDS_MAX):
        await watch.looked()
        choose = successors()
        moves = [
            Move(topic, leader, target)
            for topic in catalog.topics.values()
            for number, leader in topic.leaders.items()
            if (target := choose(topic, number)) is not None
        ]
        leading.begin(LeadershipChanges(moves=moves))
        if leading.is_idle:
            return
        await leading.until_idle()
