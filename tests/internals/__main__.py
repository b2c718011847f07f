"""Records the transcripts of docs/internals again: `python -m tests.internals`."""

from pathlib import Path

from tests.internals.stories import STORIES, recorded

PAGES = Path(__file__).parents[2] / "docs" / "internals"


def main() -> None:
    for name in STORIES:
        page = PAGES / f"{name}.md"
        page.write_text(recorded(page.read_text("utf-8"), name), "utf-8")


if __name__ == "__main__":
    main()
