"""The one part of the build that pyproject.toml cannot say: the native codec may be left out.

Without a compiler, or with one that refuses, the package installs all the same and
`logstore.records` does in Python what the extension would do. One build serves every CPython from
3.11 on (limited API), so the wheel is tagged with the oldest.
"""

from pathlib import Path

from setuptools import Extension, setup

NATIVE = Path("logstore/records/native")

setup(
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
