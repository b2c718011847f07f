"""A campaign of seeds goes on where it was interrupted, and says what it found."""

import json
from dataclasses import asdict, replace
from pathlib import Path

from tests.simulation.campaign import PlayedSeed, read_played, summary_of

PLAYED = PlayedSeed(7, 0.8, 100, 200, 900, {"kill": 3, "batches sent": 200}, [])


def test_the_half_line_of_a_killed_run_is_cut_off_and_its_seed_played_again(tmp_path: Path) -> None:
    file = tmp_path / "played.jsonl"
    whole = json.dumps(asdict(PLAYED)) + "\n"
    file.write_text(whole + whole[:20])
    assert read_played(file) == {7: PLAYED}
    assert file.read_text() == whole


def test_a_file_that_is_not_there_holds_no_seed(tmp_path: Path) -> None:
    assert read_played(tmp_path / "played.jsonl") == {}


def test_the_summary_names_seeds_with_violations_and_what_was_never_seen() -> None:
    bad = replace(PLAYED, seed=8, violations=["lost: p0-1"])
    lines = list(summary_of("cluster", {7: PLAYED, 8: bad}))
    assert lines[0] == "cluster: 2 seeds, 1 with violations: [8]"
    assert "acknowledged 100 of 200 sent" in lines[1]
    assert "'put late'" in lines[2] and "'kill'" not in lines[2]
