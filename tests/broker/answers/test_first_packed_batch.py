"""The library of the codecs is loaded by a thread, at the first packed batch, not by the loop."""

import subprocess
import sys

from tests.broker.running import NOW_MS, batch_of

STORY = """
import sys
from broker.answers.record_checks import RecordChecks
from broker.answers.topic_rules import TopicRules
from logstore.config.broker import BrokerSettings

packed = memoryview(bytes.fromhex("{batch}"))
rules = TopicRules.of("orders", {{}}, BrokerSettings().topic_defaults)
first, second = RecordChecks(), RecordChecks()
first.add(packed, rules, {now_ms})
assert first.needs_thread(), "the loop would load it"
assert "pyarrow" not in sys.modules
first.run(lambda: False)
assert first.check(packed, rules, {now_ms}) == {now_ms}
second.add(packed, rules, {now_ms})
assert not second.needs_thread()
assert second.check(packed, rules, {now_ms}) == {now_ms}
"""


def test_the_first_packed_batch_of_a_process_is_read_in_a_thread() -> None:
    story = STORY.format(batch=batch_of(b"v", compression="zstd").hex(), now_ms=NOW_MS)
    ended = subprocess.run(
        [sys.executable, "-c", story], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
