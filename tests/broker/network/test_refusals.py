"""Lines about closed connections: a few a second, however many there are, and none is uncounted."""

import pytest

from broker.network.refusals import LINES_PER_S, Refusals


def test_a_storm_of_refused_connections_is_a_few_lines_a_second(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_s = 100.0
    refusals = Refusals(lambda: now_s)
    for number in range(1_000):
        refusals.note(f"10.0.0.7:{number}", "bad frame")
        now_s += 0.004
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 4 * LINES_PER_S
    assert lines[0] == "connection closed: peer=10.0.0.7:0 bad frame others_since_the_last_line=0"
    left_out = sum(int(line.rpartition("=")[2]) for line in lines)
    now_s += 1.0
    refusals.note("10.0.0.8:1", "bad frame")
    left_out += int(caplog.records[-1].getMessage().rpartition("=")[2])
    assert refusals.count == 1_001 == left_out + len(caplog.records)
