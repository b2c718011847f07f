"""The transcripts in docs/internals are what the code does today."""

import pytest

from tests.internals.__main__ import PAGES
from tests.internals.stories import STORIES, recorded


@pytest.mark.parametrize("name", STORIES)
def test_a_story_played_again_gives_the_transcript_of_its_page(name: str) -> None:
    page = (PAGES / f"{name}.md").read_text("utf-8")

    assert recorded(page, name) == page, "python -m tests.internals records it again"
