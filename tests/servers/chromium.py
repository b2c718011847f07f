"""A browser without a window: Debian's Chromium, led by playwright-core, both outside the checkout.

`look` opens a page, takes steps on it, and gives what a reader of the page sees.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.servers.child import cache_folder, install_once, is_installed
from tests.servers.debian_package import INSTALL_S, starts, unpack, why_no_packages

LOOK_S = 90.0
DRIVER = "playwright-core@1.65.1"
PACKAGE = "chromium"
LEAD = Path(__file__).with_name("look.cjs")


@cache
def why_no_chromium() -> str | None:
    """None if it can be run here, else what is missing, in one line."""
    if is_installed(_folder()) and _works():
        return None
    missing = [f"no {one} here" for one in ("node", "npm") if shutil.which(one) is None]
    if reason := why_no_packages() or next(iter(missing), None):
        return f"a browser is fetched as Debian's package, led by Node.js: {reason}"
    try:
        install_once(_folder(), _install, _works)
    except (OSError, subprocess.SubprocessError) as error:
        return f"apt-get or npm could not fetch {PACKAGE} and {DRIVER}: {error}"
    return None


def look(url: str, steps: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    """What `look.cjs` says after `steps`, which it describes. Raises `AssertionError` with its
    words where it fails."""
    folder = _folder()
    asked = {
        "url": url,
        "steps": steps,
        "driver": str(folder / "node_modules" / "playwright-core"),
        "program": str(_program()),
        "libraries": _libraries(),
    }
    done = subprocess.run(
        ["node", str(LEAD)],
        input=json.dumps(asked),
        check=False,
        capture_output=True,
        text=True,
        timeout=LOOK_S,
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def _folder() -> Path:
    return cache_folder("chromium")


def _program() -> Path:
    return _folder() / "usr" / "lib" / "chromium" / "chromium"


def _libraries() -> str:
    libraries = _folder() / "usr" / "lib" / f"{os.uname().machine}-linux-gnu"
    return f"{libraries}:{libraries}/pulseaudio"


def _works() -> bool:
    driver = _folder() / "node_modules" / "playwright-core" / "package.json"
    return driver.exists() and starts(_program(), libraries=_libraries())


def _install() -> None:
    """Its libraries too, as far as they are not installed here; nothing is installed itself."""
    folder = _folder()
    driver = ["npm", "install", "--silent", "--ignore-scripts", "--prefix", str(folder), DRIVER]
    subprocess.run(driver, check=True, capture_output=True, timeout=INSTALL_S)
    unpack(PACKAGE, folder, with_libraries=True)
