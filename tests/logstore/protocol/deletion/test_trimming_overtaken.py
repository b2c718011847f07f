"""Two processes trim one chain: the slower one has read its row, the other deletes checkpoints."""

from collections.abc import Sequence
from typing import Any

from logstore.errors import LogstoreError
from logstore.protocol.deletion.trimming import Trimmer, TrimPass
from logstore.protocol.steps import Steps
from tests.logstore.protocol.deletion.test_trimming import TrimmedLog, play


def test_a_pass_that_another_one_overtakes_raises_no_alarm() -> None:
    async def story(written: TrimmedLog) -> None:
        (key,) = written.records
        await written.raise_log_start(key, 20)
        written.check_deletion = lambda key: None  # type: ignore[method-assign]
        slow, quick = (Trimmer(written.cluster_id, grace_ms=0) for _ in range(2))
        done = await written.runner.run(_overtaken(slow.steps(), [quick.steps(), quick.steps()]))
        assert done.published == done.deleted == {}
        assert done.waiting > 0

    play(story)


def _overtaken(pass_: Steps[TrimPass], other: Sequence[Steps[Any]]) -> Steps[TrimPass]:
    """`pass_`, with all of `other` between its first step and its second."""
    answer = yield next(pass_)
    for steps in other:
        yield from steps
    while True:
        try:
            request = pass_.send(answer)
            while True:
                try:
                    answer = yield request
                except LogstoreError as error:
                    request = pass_.throw(error)
                else:
                    break
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
