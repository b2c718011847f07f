"""Which files the project consists of: what git tracks or would track."""

import subprocess
from pathlib import Path

_BUILT = {"build", "dist", "__pycache__"}


def tree_files(root: Path) -> list[Path]:
    """Relative to `root`, in order. Without git: all but hidden folders and build outputs."""
    if (root / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root,
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        named = [Path(name) for name in sorted(set(listed.split("\0"))) if name]
    else:
        named = [path.relative_to(root) for path in sorted(root.rglob("*"))]
        named = [path for path in named if not any(map(_is_built, path.parts[:-1]))]
    return [path for path in named if (root / path).is_file()]


def _is_built(folder: str) -> bool:
    hidden = folder.startswith(".") and folder != ".ci"
    return hidden or folder in _BUILT or folder.endswith(".egg-info")
