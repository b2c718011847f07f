"""The library of the codecs is loaded by a thread, at the first packed batch, not by the loop."""

import subprocess
import sys

from tests.broker.running import NOW_MS, batch_of

STORY = """
import sys
from broker.answers.decisions.record_checks import RecordChecks
from broker.answers.decisions.topic_rules import TopicRules
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
PLAIN_STORY = """
import sys
from broker.answers.decisions.record_checks import RecordChecks
from broker.answers.decisions.topic_rules import TopicRules
from logstore.config.broker import BrokerSettings

plain = memoryview(bytes.fromhex("{batch}"))
rules = TopicRules.of("orders", {{}}, BrokerSettings().topic_defaults)
checks = RecordChecks()
checks.add(plain, rules, {now_ms})
assert not checks.needs_thread(), "there is nothing to unpack"
assert checks.check(plain, rules, {now_ms}) == {now_ms}
assert "pyarrow" not in sys.modules
"""


def test_the_first_packed_batch_of_a_process_is_read_in_a_thread() -> None:
    play(STORY, batch_of(b"v", compression="zstd"))


def test_a_plain_batch_before_it_needs_neither_library_nor_thread() -> None:
    play(PLAIN_STORY, batch_of(b"v"))


def play(text: str, batch: bytes) -> None:
    story = text.format(batch=batch.hex(), now_ms=NOW_MS)
    ended = subprocess.run(
        [sys.executable, "-c", story], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
