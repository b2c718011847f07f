"""Searches the model and prints what was found: `python -m tests.model [--large] [--planted]`."""

import argparse
import sys
import time

from tests.model.config import Config
from tests.model.planted import FOUND_BY
from tests.model.search import search
from tests.model.searches import FAST, LARGE, NORMAL

ROW = "{:52} {:>9} {:>6} {:>8}  {}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="the large searches too: minutes")
    parser.add_argument("--planted", action="store_true", help="the planted bugs too")
    options = parser.parse_args()
    configs: list[Config] = [FAST, *NORMAL, *(LARGE if options.large else ())]
    sys.stdout.write(ROW.format("configuration", "states", "depth", "seconds", "verdict"))
    is_right = True
    for config in configs:
        is_right = _shows(config) and is_right
    if options.planted:
        is_right = _shows_planted() and is_right
    return 0 if is_right else 1


def _shows(config: Config, expects_wrong: bool = False) -> bool:
    began = time.process_time()
    result = search(config)
    seconds = time.process_time() - began
    verdict = f"{result.wrong}, in {len(result.trace)} steps" if result.wrong else "holds"
    name = config.bug.name.lower() if config.bug else config.name
    _tell(ROW.format(name, result.states, result.depth, f"{seconds:.1f}", verdict))
    if not expects_wrong:
        _tell("".join(f"    {step}\n" for step in result.trace))
    return bool(result.wrong) == expects_wrong


def _shows_planted() -> bool:
    is_right = True
    for bug, config in FOUND_BY.items():
        is_right = _shows(config.with_bug(bug), expects_wrong=True) and is_right
    return is_right


def _tell(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
