"""The stories whose transcripts docs/internals shows: short, in memory and in virtual time."""

from collections.abc import Callable, Coroutine

from logstore.testing.virtual_loop import EPOCH_MS, run
from tests.internals.recording import Transcript
from tests.logstore.written import WrittenLog

FENCE = "```text transcript\n"


async def takeover(transcript: Transcript, written: WrittenLog) -> None:
    performer = transcript.performer
    transcript.say("broker 1 starts as epoch 1 and makes a topic of one partition")
    async with written.life(clean=False, performer=performer) as log:
        topic = await log.create_topic("orders", 1, {})
        for number in range(2):
            transcript.say(f"a batch of two records is committed: offsets {2 * number} and up")
            await written.write(log, topic.leaders[0], [EPOCH_MS + number] * 2)
        transcript.say("the broker dies, and is started again as epoch 2: it takes over epoch 1")
    async with written.life(clean=False, performer=performer) as log:
        transcript.say("the new leader commits a batch")
        await written.write(log, log.topics["orders"].leaders[0], [EPOCH_MS + 9])


STORIES: dict[str, Callable[[Transcript, WrittenLog], Coroutine[None, None, None]]] = {
    "takeover": takeover
}


def transcript_of(name: str) -> str:
    written = WrittenLog()
    transcript = Transcript(written.objects, written.rows)
    run(STORIES[name](transcript, written))
    return "\n".join(transcript.lines).strip() + "\n"


def recorded(page: str, name: str) -> str:
    """`page` with the transcript of story `name` in its fence."""
    before, fence, rest = page.partition(FENCE)
    _, end, after = rest.partition("```\n")
    if not fence or not end:
        raise LookupError(f"no transcript in the page: {FENCE.strip()} … ``` wanted for {name}")
    return f"{before}{fence}{transcript_of(name)}{end}{after}"
