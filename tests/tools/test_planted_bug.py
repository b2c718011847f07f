"""Edits find their place by their tokens, exactly once, and keep the indentation they find."""

from pathlib import Path

import pytest

from tools.planted_bug import Edit, Unproven, edited, planted, read_bug

SOURCE = '''"""A door."""


class Door:
    def open(self) -> None:
        if self.is_locked:
            raise Locked(
                self.name,
            )
        self.count += 1

    def close(self) -> None:
        self.count += 1
'''


def edit(old: str, new: str, within: str | None = None) -> Edit:
    return Edit("house.door", within, old, new)


def test_lines_keep_the_indentation_that_is_found() -> None:
    made = edited(
        SOURCE,
        [edit("if self.is_locked:\n    raise Locked(self.name)", "if self.is_locked:\n    return")],
    )

    assert "        if self.is_locked:\n            return\n        self.count" in made


def test_a_part_of_a_line_is_replaced_alone() -> None:
    assert "        if not self.is_locked:\n" in edited(
        SOURCE, [edit("self.is_locked", "not self.is_locked")]
    )


def test_lines_replaced_by_nothing_are_gone() -> None:
    made = edited(SOURCE, [edit("if self.is_locked:\n    raise Locked(self.name)", "")])

    assert "-> None:\n        self.count += 1\n\n" in made


def test_edits_are_looked_up_in_the_source_as_it_stands() -> None:
    made = edited(
        SOURCE, [edit("Locked", "self.count"), edit("self.count += 1", "pass", "Door.close")]
    )

    assert "raise self.count(" in made and made.endswith("        pass\n")


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (edit("self.count += 1", "pass"), "2 times in the module, not once: name a class"),
        (edit("self.count += 2", "pass"), "0 times in the module, not once: plant the bug again"),
        (edit("is_locked", "pass", "Door.close"), "0 times in Door.close"),
        (edit("count", "pass", "Door.slam"), "`within` names Door.slam, and slam is there 0 times"),
        (edit("lf.is_locked", "x"), "0 times"),
    ],
)
def test_a_place_that_is_not_there_once_is_refused(wrong: Edit, complaint: str) -> None:
    with pytest.raises(Unproven, match=complaint):
        edited(SOURCE, [wrong])


def test_edits_that_overlap_are_refused() -> None:
    with pytest.raises(Unproven, match="overlap"):
        edited(SOURCE, [edit("if self.is_locked:", "if 1:"), edit("self.is_locked", "True")])


def test_an_edit_that_leaves_no_python_is_refused(tmp_path: Path) -> None:
    (tmp_path / "house").mkdir()
    (tmp_path / "house/door.py").write_text(SOURCE)
    path = tmp_path / "bug.toml"
    path.write_text(text('old = "if self.is_locked:"'))

    with pytest.raises(Unproven, match=r"bug: house\.door: unindent"):
        planted(read_bug(path), tmp_path)


def text(old: str, *, module: str = "house.door", head: str = 'rule = "1"\nred = ["x"]\n') -> str:
    return f'{head}[[edit]]\nmodule = "{module}"\n{old}\nnew = ""\n'


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        (text('old = "a"', head='red = ["x"]\n'), "lacks rule"),
        (text('old = "a"', head='rule = "1"\nred = ["x"]\nseed = 4\n'), "unknown keys: seed"),
        (text('old = "a"', module="tests.door"), "production code"),
        (text(""), "'old'"),
        ("rule = ", "is not a planted bug"),
        ('rule = "1"\nred = ["x"]\n', "lacks edit"),
    ],
)
def test_a_file_that_is_no_planted_bug_is_refused(
    tmp_path: Path, written: str, complaint: str
) -> None:
    path = tmp_path / "bug.toml"
    path.write_text(written)

    with pytest.raises(Unproven, match=complaint):
        read_bug(path)
