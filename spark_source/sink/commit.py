"""The commit of a write in the driver, from the messages of its tasks and nothing else."""

import logging
from collections.abc import Sequence

from pyspark.sql.datasource import WriterCommitMessage

from logstore.staging.commit import CommitReport
from logstore.staging.manifests import OfferedBatch
from spark_source.sink.executor import TaskMessage
from spark_source.sink.log import open_sink
from spark_source.sink.options import WriteOptions
from spark_source.sink.task import TaskIdentity

logger = logging.getLogger(__name__)


def commit_messages(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    given = [message for message in messages if isinstance(message, TaskMessage)]
    staged = [message.staged for message in given if message.staged is not None]
    if not any(task.rows for task in staged):
        return
    identity = given[0].identity
    topics = {topic.topic_id: topic for message in given for topic in message.topics}
    offered = OfferedBatch(
        batch=identity.batch,
        query_id=identity.query_id,
        run_id=identity.run_id,
        topics=[topics[topic_id] for topic_id in sorted(topics)],
        tasks=staged,
        older=identity.older,
    )
    log = open_sink(options.url, options.storage, options.bootstrap)
    report = log.committer().commit(offered, timeout_s=options.adopt_timeout_s)
    _warn(report, identity, sum(offered.rows().values()))


def _warn(report: CommitReport, identity: TaskIdentity, rows: int) -> None:
    """Where rows of this attempt are not written because the batch was written before."""
    where = f"query={identity.query_id} batch={identity.batch.batch}"
    if report.rows_differ is not None:
        then, now = report.rows_differ
        logger.warning(
            "this batch was written before, with other rows, which count: %s rows_then=%d "
            "rows_now=%d; was the checkpoint restored to an older copy?",
            *(where, then, now),
        )
    elif report.is_ours and any(one.was_adopted for one in report.adopted.values()):
        logger.warning(
            "this batch was written before, its rows are not written again: %s rows_now=%d; was "
            "the checkpoint restored to an older copy?",
            *(where, rows),
        )
