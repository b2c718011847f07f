"""Processes that end right after their last S3 call: they end well, and not by an abort."""

import os
import subprocess
import sys

import pytest

from tests.servers.buckets import new_location
from tests.servers.locked_moto import aws_environment, locked_moto

PROCESSES = 10

PROGRAM = """
import asyncio, sys
from logstore.ports.clock import SystemClock
from logstore.objects.s3 import S3BlockingStore, S3Store
from logstore.objects.s3_options import S3Location, S3Options

location, options = S3Location.of(sys.argv[1]), S3Options(endpoint=sys.argv[2])
key = sys.argv[3]

async def main():
    store = S3Store(location, options, SystemClock())
    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(store.create(f"{key}/{number}", [b"data"]))
    await store.close()

if key.startswith("blocking"):
    S3BlockingStore(location, options).create(key, [b"data"])
else:
    asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["blocking", "asynchronous"])
def test_a_short_process_ends_well_right_after_its_last_call(kind: str) -> None:
    with aws_environment():
        endpoint = locked_moto()
        location = new_location(endpoint)
        codes = [
            subprocess.run(
                [sys.executable, "-c", PROGRAM, location.url, endpoint, f"{kind}-{number}"],
                env=dict(os.environ),
                timeout=60,
            ).returncode
            for number in range(PROCESSES)
        ]
    assert codes == [0] * PROCESSES
