"""A port that a test is given is its own, whatever other test processes draw."""

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.servers.child import PORTS, free_port

DRAW = """
import random
from tests.servers.child import free_port
print(free_port(random.Random(7)), flush=True)
input()
"""


@contextmanager
def another_process() -> Iterator[int]:
    """The port that another process draws, seeded alike, while that process lives."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", DRAW], stdin=pipe, stdout=pipe) as child:
        assert child.stdout is not None
        yield int(child.stdout.readline())
        child.communicate(b"\n")


def test_processes_seeded_alike_are_given_different_ports() -> None:
    with another_process() as first, another_process() as second:
        assert len({first, second, free_port(random.Random(7))}) == 3
        assert {first, second} <= set(PORTS)


def test_what_a_test_draws_next_does_not_depend_on_which_ports_are_taken() -> None:
    chances = [random.Random(8), random.Random(8)]
    ports = [free_port(rng) for rng in chances]

    assert ports[0] != ports[1]
    assert chances[0].random() == chances[1].random()
