"""Any order of requests, silence, restarts and time: what must hold, holds; and it goes on.

Safety: a generation has one leader and one part per member, is never given to two sets of members,
and never goes back; no member is forgotten without leaving, being late, or being replaced.
Liveness: once members do what clients do, the group becomes stable.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from broker.groups.decisions.group import NO_DEADLINE, Phase
from broker.groups.decisions.limits import GroupLimits
from broker.groups.decisions.outcome import Joined, Synced
from logstore.wire.errors import ErrorCode
from tests.broker.groups.played import REBALANCE_MS, SESSION_MS, Play, Token

CLIENTS = range(4)
STATIC = {2: "static-2", 3: "static-3"}
PROTOCOLS = ((("a", b"1"), ("b", b"2")), (("b", b"2"), ("a", b"1")), (("a", b"3"),))


class Client:
    """What one consumer knows of itself."""

    def __init__(self, number: int) -> None:
        self.instance_id = STATIC.get(number)
        self.member_id = ""
        self.generation = -1
        self.is_leader = False
        self.members: list[str] = []
        self.join: Token | None = None
        self.sync: Token | None = None
        self.part: bytes | None = None


class GroupMachine(RuleBasedStateMachine):
    @initialize(delay_ms=st.sampled_from([0, 3000]), size_max=st.sampled_from([2, 10]))
    def begin(self, delay_ms: int, size_max: int) -> None:
        self.play = Play(GroupLimits(initial_delay_ms=delay_ms, size_max=size_max))
        self.clients = [Client(number) for number in CLIENTS]
        self.leaders: dict[int, str] = {}
        self.parts: dict[tuple[int, str], bytes] = {}
        self.last_generation = 0

    # What clients do

    @rule(number=st.sampled_from(CLIENTS), protocols=st.sampled_from(PROTOCOLS))
    def joins(self, number: int, protocols: tuple[tuple[str, bytes], ...]) -> None:
        client = self.clients[number]
        client.sync = None
        client.join = self.play.ask_join(
            client.member_id,
            instance_id=client.instance_id,
            protocols=protocols,
            needs_id=number % 2 == 0,
        )
        self.listen()

    @rule(number=st.sampled_from(CLIENTS))
    def syncs(self, number: int) -> None:
        client = self.clients[number]
        if client.generation < 0 or client.join is not None:
            return
        parts = {m: f"{client.generation} {m}".encode() for m in client.members}
        client.sync = self.play.ask_sync(
            client.member_id, client.generation, parts, instance_id=client.instance_id
        )
        self.listen()

    @rule(number=st.sampled_from(CLIENTS))
    def beats(self, number: int) -> None:
        client = self.clients[number]
        code = self.play.beat(client.member_id, client.generation, client.instance_id)
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.clients[number] = Client(number)

    @rule(number=st.sampled_from(CLIENTS))
    def leaves(self, number: int) -> None:
        client = self.clients[number]
        self.play.leave((client.member_id, client.instance_id))
        self.clients[number] = Client(number)
        self.listen()

    @rule(number=st.sampled_from(CLIENTS))
    def dies_and_starts_again(self, number: int) -> None:
        self.clients[number] = Client(number)

    @rule(ms=st.sampled_from([1, 1000, 3000, SESSION_MS, REBALANCE_MS]))
    def time_passes(self, ms: int) -> None:
        self.play.wait(ms)
        self.listen()

    @rule()
    def the_coordinator_starts_again(self) -> None:
        self.play.restart()
        for client in self.clients:
            client.join = client.sync = None

    def listen(self) -> None:
        """Clients take the answers that have come."""
        for client in self.clients:
            joined = self.play.answers.get(client.join) if client.join is not None else None
            if isinstance(joined, Joined):
                client.join = None
                self.hears_of_join(client, joined)
            synced = self.play.answers.get(client.sync) if client.sync is not None else None
            if isinstance(synced, Synced):
                client.sync = None
                if not synced.code:
                    self.hears_of_part(client, synced.assignment)

    def hears_of_join(self, client: Client, joined: Joined) -> None:
        if joined.code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = joined.member_id
        elif joined.code:
            client.generation = -1
            if joined.code != ErrorCode.REBALANCE_IN_PROGRESS:
                client.member_id = ""
        else:
            assert joined.generation >= client.generation
            client.member_id, client.generation = joined.member_id, joined.generation
            client.is_leader = joined.leader == joined.member_id
            client.members = [member.member_id for member in joined.members]
            if client.is_leader:
                assert client.member_id in client.members
                if not joined.skips_assignment:
                    known = self.leaders.setdefault(joined.generation, joined.member_id)
                    assert known == joined.member_id, "two leaders of one generation"

    def hears_of_part(self, client: Client, part: bytes) -> None:
        client.part = part
        known = self.parts.setdefault((client.generation, client.member_id), part)
        assert known == part, "two parts of one member in one generation"

    # What must hold

    @invariant()
    def the_generation_never_goes_back(self) -> None:
        if not hasattr(self, "play"):
            return
        assert self.play.group.generation >= self.last_generation
        self.last_generation = self.play.group.generation

    @invariant()
    def the_group_is_in_order(self) -> None:
        if not hasattr(self, "play"):
            return
        group = self.play.group
        assert (group.phase is Phase.EMPTY) == (not group.members) or (
            group.phase is Phase.PREPARING
        )
        assert group.pending_sync <= set(group.members)
        if group.phase in (Phase.COMPLETING, Phase.STABLE):
            assert group.leader in group.members
            assert all(member.joining is None for member in group.members.values())
        if group.phase is Phase.PREPARING:
            assert group.join_due_ms < NO_DEADLINE, "a rebalance that nothing ends"
        for member in group.members.values():
            waits = member.joining is not None or member.syncing is not None
            assert waits or member.session_due_ms < NO_DEADLINE, "a member that never ends"
        assert group.wake_ms <= min(group.deadlines()), "nothing will wake it"

    @invariant()
    def a_restart_would_find_the_same(self) -> None:
        if not hasattr(self, "play"):
            return
        twin = Play(log=list(self.play.log))
        twin.restart()
        ours, theirs = self.play.group, twin.group
        assert (ours.generation, ours.protocol) == (theirs.generation, theirs.protocol)
        assert ours.offsets == theirs.offsets
        if ours.phase in (Phase.STABLE, Phase.COMPLETING, Phase.EMPTY):
            assert theirs.phase is ours.phase
            assert [(m.member_id, m.assignment) for m in ours.members.values()] == [
                (m.member_id, m.assignment) for m in theirs.members.values()
            ]

    def teardown(self) -> None:
        """From here on clients do what they should: the group must settle."""
        if not hasattr(self, "play"):
            return
        for _ in range(60):
            for number, client in enumerate(self.clients):
                if client.join is None and client.sync is None:
                    self.does_what_it_should(number)
            self.play.wait(SESSION_MS // 3)
            self.listen()
        group = self.play.group
        assert group.phase is Phase.STABLE, group
        assert len(group.members) == min(len(self.clients), self.play.limits.size_max)

    def does_what_it_should(self, number: int) -> None:
        client = self.clients[number]
        beat = self.play.beat(client.member_id, client.generation, client.instance_id)
        if client.generation < 0 or beat:
            if beat not in (0, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
                client.member_id = "" if not self.play.group.pending else client.member_id
            client.generation = -1
            client.part = None
            self.joins(number, PROTOCOLS[0])
        elif client.part is None or (client.generation, client.member_id) not in self.parts:
            self.syncs(number)


TestGroups = GroupMachine.TestCase
TestGroups.settings = settings(stateful_step_count=40)
