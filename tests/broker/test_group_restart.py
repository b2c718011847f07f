"""What groups were promised survives their broker, and goes on at the next one."""

from logstore.wire.errors import ErrorCode
from tests.broker.group_calls import (
    broker_on,
    commit,
    describe,
    fetch_offset,
    heartbeat,
    join,
    member_of,
)
from tests.broker.running import Shared


def test_a_member_does_not_notice_that_its_coordinator_was_started_again() -> None:
    stores = Shared()
    with broker_on(stores) as running:
        running.create_topic("t")
        with running.connect() as client:
            member_id = member_of(client, "g", instance_id="one")
            dynamic_id = member_of(client, "dynamic")
            assert commit(client, "simple", 7) == 0
            code = commit(client, "g", 9, member_id=member_id, generation=1, instance_id="one")
            assert code == 0

    with broker_on(stores) as running, running.connect() as client:
        assert heartbeat(client, "g", member_id, instance_id="one") == 0
        assert heartbeat(client, "dynamic", dynamic_id) == 0
        assert heartbeat(client, "dynamic", "stranger") == ErrorCode.UNKNOWN_MEMBER_ID
        assert fetch_offset(client, "simple") == 7
        assert fetch_offset(client, "g") == 9
        member = (describe(client, "g").members or [])[0]
        assert bytes(member.member_assignment) == b"part"
        assert join(client, "dynamic", dynamic_id).generation_id == 2


def test_log_start_of_a_coordinator_that_wrote_its_keys_again_outlives_the_broker() -> None:
    stores = Shared()
    with broker_on(stores) as running:
        running.create_topic("t")
        with running.connect() as client:
            for offset in range(300):
                assert commit(client, "g", offset) == 0
        led = running.log.topics["__consumer_offsets"].leaders.values()
        running.wait_until(lambda: any(leader.log_start > 0 for leader in led))

    with broker_on(stores) as running:
        (partition,) = [
            leader
            for leader in running.log.topics["__consumer_offsets"].leaders.values()
            if leader.log_end
        ]
        assert 0 < partition.log_start < partition.log_end
        with running.connect() as client:
            assert fetch_offset(client, "g") == 299
