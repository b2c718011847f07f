"""Which object keys are allowed, on every store alike.

    key       = component *( "/" component )
    component = 1-255 printable ASCII characters, without "/" and "\\", not starting with "."

A leading dot is kept for what a store needs beside its objects (a directory's temporary files), so
`.` and `..` are no components either. The lengths are those of S3 keys and of file names.
"""

import re

from logstore.errors import Invalid

KEY_BYTES_MAX = 1024

_COMPONENT = r"(?!\.)[!-.0-\[\]-~ ]{1,255}"
_KEY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_PREFIX = re.compile(rf"(?:{_COMPONENT}/)*(?:{_COMPONENT})?")


def check_key(key: str) -> None:
    """Raises `Invalid` unless `key` may name an object."""
    if len(key) > KEY_BYTES_MAX or _KEY.fullmatch(key) is None:
        raise Invalid(f"not an object key key={key!r}")


def is_key(key: str) -> bool:
    return len(key) <= KEY_BYTES_MAX and _KEY.fullmatch(key) is not None


def check_prefix(prefix: str) -> None:
    """Raises `Invalid` unless some key may start with `prefix`."""
    if len(prefix) > KEY_BYTES_MAX or _PREFIX.fullmatch(prefix) is None:
        raise Invalid(f"not the beginning of an object key prefix={prefix!r}")


def check_range(start: int, length: int) -> None:
    """Raises `Invalid` unless [start, start + length) is a range of bytes."""
    if start < 0 or length < 0:
        raise Invalid(f"not a range of bytes start={start} length={length}")


def folders_of(key: str) -> list[str]:
    """The proper path prefixes of `key`, shortest first: "a/b/c" has "a" and "a/b"."""
    parts = key.split("/")[:-1]
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
