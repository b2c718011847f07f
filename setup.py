"""What pyproject.toml cannot say of the build: an optional extension, and the package page.

Without a compiler, or with one that refuses, the package installs all the same and
`logstore.records` does in Python what the extension would do. One build serves every CPython from
3.11 on (limited API), so the wheel is tagged with the oldest.

A package index shows README.md without the files that it links to. There its links are absolute, if
`[project.urls]` names the address of the repository as Source; else they are plain words.
"""

import re
import tomllib
from pathlib import Path

from setuptools import Extension, setup

NATIVE = Path("logstore/records/native")
RELATIVE_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!\w+:|#)([^)\s]+)\)")


def package_page() -> str:
    """README.md as a reader of the package page needs it, without the checkout."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    source = project.get("urls", {}).get("Source")
    to = rf"[\1]({source}/blob/main/\2)" if source else r"\1"
    return RELATIVE_LINK.sub(to, Path("README.md").read_text())


setup(
    long_description=package_page(),
    long_description_content_type="text/markdown",
    ext_modules=[
        Extension(
            "logstore.records.native._codec",
            sources=sorted(map(str, NATIVE.glob("*.c"))),
            depends=sorted(map(str, NATIVE.glob("*.h"))),
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
