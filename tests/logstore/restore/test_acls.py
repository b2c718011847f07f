"""ACLs come back from their records, and what was revoked does not."""

from logstore.formats.acl_row import ACL, AclRow
from logstore.protocol.access.acls import change_acls
from logstore.protocol.rows.view import read_everything
from logstore.protocol.steps import PutRow
from logstore.registry.memory import MemoryRows
from logstore.testing.scripted import stop_before
from logstore.testing.simulated_rows import at_once
from tests.logstore.protocol.access.test_acls import A, B, C, S, minus, plus
from tests.logstore.restore.test_restore import cluster_id, copy_of, put_back, rebuild
from tests.logstore.written import WrittenLog


async def test_a_restore_raises_rows_of_acls_to_their_records() -> None:
    written = WrittenLog(checkpoint_segments=3)
    async with written.life() as log:
        await log.create_topic("orders", 1, {})
        await written.runner.run(change_acls(S, plus(A, B)))
        older = copy_of(written.rows)
        await written.runner.run(change_acls(S, minus(A)))
        await stop_before(written.runner, change_acls(S, plus(C)), PutRow)
    cluster = cluster_id(written)
    for rows in (older, MemoryRows()):
        put_back(written, rows)
        planned = await rebuild(written, cluster, dry_run=True)
        done = await rebuild(written, cluster)
        assert f"acl/{S}" in planned.rows
        assert f"acl/{S}" in done.rows
        row = at_once(written.rows.get(ACL, S))
        assert row is not None
        assert AclRow.of(row) == AclRow(3, (B, C))
        assert f"acl/{S}" not in (await rebuild(written, cluster)).rows


async def test_a_running_broker_keeps_rights_that_are_newer_than_the_registry() -> None:
    written = WrittenLog(checkpoint_segments=3)
    async with written.life() as log:
        await written.runner.run(change_acls(S, plus(A, B)))
        older = copy_of(written.rows)
        await written.runner.run(change_acls(S, minus(A)))
        seen = []
        log.rows.watch(lambda: seen.append(log.rows.acls))
        await log._watch._read(read_everything, 5.0)
        assert set(log.rows.acls[S].group.acls) == {B}
        count = len(seen)
        for (pk, sk), row in older._rows.items():
            if pk == ACL:
                at_once(written.rows.put_if(pk, sk, row, [], "older"))
        await log._watch._read(read_everything, 5.0)
        assert set(log.rows.acls[S].group.acls) == {B}
        assert len(seen) == count
