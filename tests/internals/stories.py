"""The stories whose transcripts docs/internals shows: short, in memory and in virtual time."""

from collections.abc import Callable, Coroutine

from logstore.formats.feed_row import FeedChange
from logstore.formats.partition_row import partition_pk, partition_sk
from logstore.protocol.chain.identity import ensure_identity
from logstore.protocol.deletion.trimming import Trimmer
from logstore.protocol.topics.replica_changes import Placement, change_placement
from logstore.testing.process_loop import simulate
from logstore.testing.virtual_loop import EPOCH_MS, VirtualClock
from tests.internals.compaction_story import compaction
from tests.internals.controller_story import controller
from tests.internals.group_story import groups
from tests.internals.recording import Transcript
from tests.internals.request_story import requests
from tests.logstore.raised import raised_to
from tests.logstore.waits import until
from tests.logstore.written import WrittenLog

GRACE_MS = 60_000
FENCE = "```text transcript\n"


async def takeover(transcript: Transcript, written: WrittenLog) -> None:
    runner = transcript.runner
    transcript.say("broker 1 starts as epoch 1 and makes a topic of one partition")
    async with written.life(clean=False, runner=runner) as log:
        topic = await log.create_topic("orders", 1, {})
        for number in range(2):
            transcript.say(f"a batch of two records is committed: offsets {2 * number} and up")
            await written.write(log, topic.leaders[0], [EPOCH_MS + number] * 2)
        transcript.say("the broker dies, and is started again as epoch 2: it takes over epoch 1")
    async with written.life(clean=False, runner=runner) as log:
        transcript.say("the new leader commits a batch")
        await written.write(log, log.topics["orders"].leaders[0], [EPOCH_MS + 9])


async def handover(transcript: Transcript, written: WrittenLog) -> None:
    runner = transcript.runner
    transcript.say("brokers 1 and 2 start; a topic of one partition, led by 1 and followed by 2")
    async with (
        written.life(clean=False, broker=1, runner=runner) as one,
        written.life(clean=False, broker=2, runner=runner) as two,
    ):
        await until(lambda: all(len(log.live_brokers()) == 2 for log in (one, two)))
        topic = await one.create_topic("orders", 1, {}, assignments=[(1, 2)])
        await until(lambda: "orders" in two.topics and two.topics["orders"].followers[0].is_ready)
        transcript.say("broker 1 commits a batch of two records")
        await written.write(one, topic.leaders[0], [EPOCH_MS] * 2)
        transcript.say("broker 2 becomes the target, as an administrator or the controller asks")
        await runner.run(
            change_placement(topic.topic_id, 0, lambda row: Placement((1, 2), (), target=2))
        )
        await one.publish([FeedChange(topic.name, topic.topic_id)])
        there = two.topics["orders"]
        await until(lambda: 0 in there.leaders)
        transcript.say("broker 2 commits a batch")
        await written.write(two, there.leaders[0], [EPOCH_MS + 9])


async def trimming(transcript: Transcript, written: WrittenLog) -> None:
    runner = transcript.runner
    transcript.say("a broker commits six batches of one record each and dies; restarted, it stops")
    async with written.life(clean=False, runner=runner) as log:
        topic = await log.create_topic("orders", 1, {})
        for number in range(6):
            await written.write(log, topic.leaders[0], [EPOCH_MS + number])
    async with written.life(runner=runner):
        identity = await runner.run(ensure_identity("memory"))
    transcript.say("log start is raised to offset 6, as DeleteRecords does")
    place = partition_pk(topic.topic_id, 0), partition_sk(topic.topic_id, 0)
    await runner.registry.update_if(*place, raised_to(6))
    trimmer = Trimmer(identity.cluster_id, grace_ms=GRACE_MS)
    for what in ("publishes trim points", "waits for the grace to end", "deletes"):
        transcript.say(f"a pass {what}")
        await runner.run(trimmer.steps())
        await VirtualClock().sleep_s(GRACE_MS / 2000)


STORIES: dict[str, Callable[[Transcript, WrittenLog], Coroutine[None, None, None]]] = {
    "takeover": takeover,
    "handover": handover,
    "trimming": trimming,
    "controller": controller,
    "groups": groups,
    "compaction": compaction,
    "requests": requests,
}


def transcript_of(name: str) -> str:
    written = WrittenLog()
    transcript = Transcript(written.objects, written.rows)
    simulate(STORIES[name](transcript, written))
    return "\n".join(transcript.lines).strip() + "\n"


def recorded(page: str, name: str) -> str:
    """`page` with the transcript of story `name` in its fence."""
    before, fence, rest = page.partition(FENCE)
    _, end, after = rest.partition("```\n")
    if not fence or not end:
        raise LookupError(f"no transcript in the page: {FENCE.strip()} … ``` wanted for {name}")
    return f"{before}{fence}{transcript_of(name)}{end}{after}"
