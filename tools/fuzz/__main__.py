"""Attacks the native codec for some minutes: `python -m tools.fuzz --minutes 5 [--seed 0]`.

The codec is built with address and undefined-behaviour sanitizers and run in a process of its own.
Each input follows from the seed and its number, so a fault can be found again:
`--seed S --first N`.
"""

import argparse
import random
import subprocess
import sys
import time

from tools.fuzz import sanitized

REPORT_S = 30


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--plain", action="store_true", help="the installed build, no sanitizers")
    parser.add_argument("--extension", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.plain or options.extension:
        return _attack(options)
    if why_not := sanitized.build():
        print(f"fuzz: no build with sanitizers here: {why_not}", file=sys.stderr)
        return 1
    arguments = [*sys.argv[1:], "--extension", str(sanitized.BUILT)]
    command = [sys.executable, "-m", "tools.fuzz", *arguments]
    return subprocess.run(command, env=sanitized.environment()).returncode


def _attack(options: argparse.Namespace) -> int:
    if options.extension:
        sanitized.load(options.extension)
    from logstore.records import native
    from tools.fuzz.twins import PARSED, Disagreement, attack

    if native.codec is None:
        print("fuzz: the native codec is not built here", file=sys.stderr)
        return 1
    began = said = time.perf_counter()
    number = read = 0
    while time.perf_counter() - began < options.minutes * 60:
        rng = random.Random(f"{options.seed} {options.first + number}")
        try:
            read += attack(rng, native.codec)
        except Disagreement as found:
            again = f"--seed {options.seed} --first {options.first + number}"
            print(f"fuzz: the twins disagree, again with {again}\n{found}", file=sys.stderr)
            return 1
        number += 1
        if time.perf_counter() - said > REPORT_S:
            said = time.perf_counter()
            print(f"fuzz: {number} inputs", file=sys.stderr)
    took = time.perf_counter() - began
    print(
        f"fuzz: {number} inputs compared, {read} of them read, {number * PARSED} more parsed, "
        f"seed {options.seed}, {took:.0f} s: nothing found"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
