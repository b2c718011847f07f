"""Handlers return their answers: what the runtime does for all of them is done by none of them."""

import re
from pathlib import Path

from broker.handlers.served_requests import HANDLERS
from broker.requests.way import Loop

HANDLERS_FOLDER = Path(__file__).parents[3] / "broker" / "handlers"
OWN_WAY = {"fetch.py", "produce.py"}
FRAMEWORK = {"before_login.py", "dispatch.py", "served_requests.py", "__init__.py"}
THE_RUNTIMES = re.compile(
    r"\bcall\.(?:answer|answer_bytes|fail|say_throttle|note_errors|count_errors)\("
    r"|\bbroker\.(?:start|turns)\b"
    r"|\b(?:suspend|resume)_requests\("
    r"|\bencode_frame\w*\("
)
ASKED_FOR_A_VERSION = "answer_unknown_version"
"""Of ApiVersions: answered before there is a handler."""


def test_only_produce_and_fetch_go_their_own_way() -> None:
    own = {row.api.name for row in HANDLERS.values() if row.way.loop is Loop.OWN}

    assert own == {"Produce", "Fetch"}


def test_a_handler_neither_answers_nor_takes_turns_itself() -> None:
    for path in sorted(HANDLERS_FOLDER.glob("*.py")):
        if path.name in OWN_WAY | FRAMEWORK:
            continue
        source = path.read_text("utf-8").partition(f"def {ASKED_FOR_A_VERSION}")[0]

        assert not THE_RUNTIMES.findall(source), f"{path.name}: return the answer instead"
