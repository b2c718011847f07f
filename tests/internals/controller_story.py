"""The story of a controller that dies: another takes its lease, then moves a leadership back."""

from dataclasses import replace

from broker.cluster.controller import Controller
from broker.cluster.settings import ControllerSettings
from logstore.config.broker import BrokerSettings
from logstore.epoch.log import Log
from logstore.testing.process_loop import Process
from logstore.testing.virtual_loop import EPOCH_MS
from tests.internals.recording import Transcript
from tests.logstore.waits import until
from tests.logstore.written import WrittenLog

SETTINGS = replace(ControllerSettings.of(BrokerSettings()), balance_every_s=5.0)


async def controller(transcript: Transcript, written: WrittenLog) -> None:
    transcript.say("brokers 1 and 2 start; broker 1 is the first that asks for the lease")
    one = await _Broker.start(transcript, written, 1)
    await until(lambda: one.controller.is_active)
    two = await _Broker.start(transcript, written, 2)
    await until(lambda: all(len(broker.log.live_brokers()) == 2 for broker in (one, two)))
    transcript.say("a topic of two partitions: 0 is led by broker 1, 1 by broker 2")
    await one.log.create_topic("orders", 2, {}, assignments=[(1, 2), (2, 1)], replicas=2)
    await until(lambda: one.led() == [0] and two.led() == [1])
    await until(lambda: two.log.topics["orders"].followers[0].is_ready)
    transcript.say("broker 1 commits a batch of two records, and dies")
    await written.write(one.log, one.log.topics["orders"].leaders[0], [EPOCH_MS] * 2)
    one.process.kill()
    transcript.say("broker 2 takes the lease, and takes the chain of broker 1 over")
    await until(lambda: two.led() == [0, 1])
    transcript.say("broker 1 starts again; the controller gives it partition 0 back")
    one = await _Broker.start(transcript, written, 1)
    await until(lambda: one.led() == [0] and two.led() == [1])


class _Broker:
    """One life of a broker, with its controller."""

    log: Log
    controller: Controller

    def __init__(self, name: str) -> None:
        self.process = Process(name)
        self._is_up = False

    @staticmethod
    async def start(transcript: Transcript, written: WrittenLog, broker: int) -> "_Broker":
        started = _Broker(f"broker {broker}")
        started.process.spawn(started._live(transcript, written, broker))
        await until(lambda: started._is_up)
        return started

    async def _live(self, transcript: Transcript, written: WrittenLog, broker: int) -> None:
        async with written.life(broker=broker, runner=transcript.runner) as log:
            self.log, self.controller = log, Controller(log, SETTINGS)
            self._is_up = True
            await self.controller.run()

    def led(self) -> list[int]:
        """Partitions of the topic that this broker leads, and serves."""
        topic = self.log.topics.get("orders")
        leaders = {} if topic is None else topic.leaders
        return sorted(
            n for n, leader in leaders.items() if leader.has_begun and not leader.is_released
        )
