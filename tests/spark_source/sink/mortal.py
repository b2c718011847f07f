"""A sink whose driver dies at a named point of one commit, once: `format("mortal")`.

The points are those at which a restart must find its way:

    before-manifest, after-manifest   the attempt is not fixed yet, or just fixed
    first-adopted                     one leader has adopted, others have not been asked
    all-adopted                       everything is in the log, Spark does not know

What dies is the whole driver with its Java and its Python workers, by SIGKILL.
"""

import os
import signal
import threading
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from logstore.staging.brokers import Brokers
from logstore.staging.manifests import FixedBatch, Manifests, OfferedBatch
from logstore.wire.adopt import ADOPT_KEY
from spark_source.sink.plan import plan_write
from spark_source.sink.writers import StreamWriter
from spark_source.source import LogstoreDataSource

POINTS = ("before-manifest", "after-manifest", "first-adopted", "all-adopted")
POINT, BATCH, GROUP = "kafka.test.point", "kafka.test.batch", "kafka.test.group"


class MortalSource(LogstoreDataSource):
    """Options: the point, the batch, and a file that names the process group of the driver.

    That file is removed by what dies, so that it dies once.
    """

    @classmethod
    def name(cls) -> str:
        return "mortal"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        plan = plan_write(self.options, schema, is_stream=True, overwrite=overwrite)
        return MortalWriter(plan, dict(self.options))


class MortalWriter(StreamWriter):
    def __init__(self, plan: Any, options: dict[str, str]) -> None:
        super().__init__(plan)
        self._options = options

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        group = Path(self._options[GROUP])
        if batchId != int(self._options[BATCH]) or not group.exists():
            super().commit(messages, batchId)
            return
        point = self._options[POINT]
        _arm(point, group)
        super().commit(messages, batchId)
        die(group)


def die(group: Path) -> None:
    number = int(group.read_text())
    group.unlink()
    os.killpg(number, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _arm(point: str, group: Path) -> None:
    fix, call, one_at_a_time = Manifests.fix, Brokers.call, threading.Lock()

    def mortal_fix(self: Manifests, offered: OfferedBatch) -> FixedBatch:
        if point == "before-manifest":
            die(group)
        fixed = fix(self, offered)
        if point == "after-manifest":
            die(group)
        return fixed

    def mortal_call(
        self: Brokers, broker: int, key: int, request: Any, version: int | None = None
    ) -> Any:
        with one_at_a_time:
            answer = call(self, broker, key, request, version)
            if key == ADOPT_KEY and point == "first-adopted":
                die(group)
            return answer

    Manifests.fix = mortal_fix  # type: ignore[method-assign]
    Brokers.call = mortal_call  # type: ignore[method-assign]
