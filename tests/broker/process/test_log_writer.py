"""A broker logs while nothing reads its stderr: no call waits, and what was lost is counted."""

import logging
import os
import re
import threading

import pytest

from broker.process.log_writer import STDERR, STDOUT, LogWriter

LINES_MAX = 100
LINE = "x" * 1000
LOGGED = 1000
"""A pipe takes 64 KiB: some 65 of these lines, and 100 wait."""


def log(writer: LogWriter, count: int) -> threading.Thread:
    """In a thread, so that a call that waits fails this test and does not hang it."""

    def run() -> None:
        for _ in range(count):
            writer.handle(logging.LogRecord("broker", logging.INFO, "x.py", 1, LINE, (), None))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_no_call_waits_for_a_reader_and_lost_lines_are_counted() -> None:
    reading, writing = os.pipe()
    writer = LogWriter(writing, LINES_MAX)
    try:
        thread = log(writer, LOGGED)
        thread.join(4)
        assert not thread.is_alive(), "a call waited until stderr was read"
        read = b""
        while read.count(LINE.encode()) + lost_count(read) < LOGGED:
            read += os.read(reading, 65536)
        assert read.count(LINE.encode()) + lost_count(read) == LOGGED
        assert lost_count(read) > LOGGED - LINES_MAX - 100
    finally:
        close(writer, reading, writing)


def lost_count(read: bytes) -> int:
    return sum(
        map(int, re.findall(rb"logstore: (\d+) log lines lost: stderr was not read\n", read))
    )


def close(writer: LogWriter, reading: int, writing: int) -> None:
    """Its reader first: what still waits fails then, and the thread uses the pipe no longer."""
    os.close(reading)
    writer.flush()
    os.close(writing)


def test_the_end_of_a_process_does_not_wait_for_ever() -> None:
    reading, writing = os.pipe()
    writer = LogWriter(writing, LINES_MAX)
    log(writer, LOGGED).join(10)
    flushing = threading.Thread(target=writer.flush, daemon=True)
    flushing.start()
    flushing.join(10)
    assert not flushing.is_alive()
    close(writer, reading, writing)


def test_lines_are_written_in_order_and_before_flush_returns() -> None:
    reading, writing = os.pipe()
    writer = LogWriter(writing)
    for number in range(50):
        writer.handle(logging.LogRecord("broker", logging.INFO, "x.py", 1, str(number), (), None))
    writer.flush()
    assert os.read(reading, 65536).split() == [str(number).encode() for number in range(50)]
    close(writer, reading, writing)


def test_lines_on_stdout_and_log_lines_keep_their_order(capfd: pytest.CaptureFixture[str]) -> None:
    os.dup2(STDOUT, STDERR)
    writer = LogWriter()
    for number in range(0, 50, 2):
        writer.handle(logging.LogRecord("broker", logging.INFO, "x.py", 1, str(number), (), None))
        writer.say(str(number + 1))
    writer.flush()
    assert capfd.readouterr().out.split() == [str(number) for number in range(50)]


def test_a_reader_that_went_away_ends_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    writer = LogWriter(writing)
    log(writer, 10).join(10)
    writer.flush()
    os.close(writing)
