"""Whether other users of the machine can read a log: of logs that older versions made.

New files are for the user and the group (0440), folders 0750, the registry's files for the user
alone (0600). Files that are there keep their mode: their owner may have given it to them.
"""

from pathlib import Path

_OTHERS, _OTHERS_ENTER = 0o007, 0o001
CLOSE = "close it by chmod -R o-rwx, and the registry's files by chmod 600"
NAMES = ("cluster.json", "registry.db")


def open_to_others(directory: Path) -> list[Path]:
    """Returns the files, one of objects and the registry, that every user can read or write."""
    if not _mode(directory) & _OTHERS_ENTER:
        return []
    return [path for path in (directory / name for name in NAMES) if _mode(path) & _OTHERS]


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError:
        return 0
