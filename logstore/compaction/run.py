"""One run of compaction, from its row to its last step, in the order that is safe.

    row of the run, rows of dead runs closed → snapshots, then committed ends → cut, kept in the row
    → tasks → per topic: commit on the snapshot, then table pointer → files below log start, small
    files → keys of compacted topics → tables of deleted topics, files that nothing names → row

It has the lease already (`compactor`). Trimming what tables hold is for brokers and `logstore gc`.
"""

from logstore.compaction.backlog import Backlog
from logstore.compaction.clean import Cleaning
from logstore.compaction.decisions.run_rows import begin_run, close_earlier, end_run
from logstore.compaction.moves import Moves
from logstore.compaction.session import Session
from logstore.compaction.upkeep import Upkeep
from logstore.errors import Refused
from logstore.formats.compaction_row import INTERRUPTED, RunStatus
from logstore.protocol.rows.metadata import read_table_rows


def run_once(session: Session, by: str) -> None:
    """`by` says where it runs. Raises what ends a run; the summary says what failed for a topic."""
    session.step("row of the run")
    session.ports.rows.perform(begin_run(session.run, by))
    try:
        _work(session)
    except KeyboardInterrupt:
        _end(session, RunStatus.ABANDONED, INTERRUPTED)
        raise
    except BaseException as error:
        _end(session, RunStatus.FAILED, str(error) or type(error).__name__)
        raise
    _end(session, RunStatus.DONE, "; ".join(session.summary.errors))


def _work(session: Session) -> None:
    ports, options = session.ports, session.options
    ports.reader.format_level()  # refuses a newer log
    session.step("earlier runs")
    earlier = ports.rows.perform(close_earlier(session.run, ports.clock.now_ms()))
    closed = earlier.closed
    session.summary.abandoned_runs = len(closed)
    session.step("tables and log")
    backlog = Backlog(ports.reader, ports.tables, ports.clock, session.report)
    states = backlog.look(options.topics, session.known)
    there = {state.topic.name for state in states.values()} | set(session.summary.topics)
    if missing := sorted(set(options.topics) - there):
        raise Refused(
            f"no such topic, or an internal one: {', '.join(missing)}; see: logstore topics"
        )
    for state in states.values():
        session.see(state, state.snapshot)
    upkeep = Upkeep(session)
    session.step("table pointers")
    upkeep.repair(states, ports.rows.perform(read_table_rows()), closed)
    Moves(session, backlog, states).go()
    upkeep.expire(states)
    upkeep.merge(states)
    if options.cleans:
        Cleaning(session, states).go(earlier.with_objects)
    session.step("folders")
    upkeep.folders(states, ports.rows.perform(read_table_rows()))


def _end(session: Session, status: RunStatus, message: str) -> None:
    """The run's row. Where it cannot be written, the next run closes it."""
    session.ports.watch("end of the run")
    rows = session.ports.rows
    if rows.holds:
        rows.perform(end_run(session.run, status, message, session.ports.clock.now_ms()))
