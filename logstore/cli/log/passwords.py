"""Passwords as people give them to commands: a file, standard input, or typed."""

import getpass
import sys
from pathlib import Path

from logstore.errors import Invalid

STANDARD_INPUT = "-"
PASSWORD_BYTES_MAX = 1024


def read_password(path: str | None) -> str:
    """One line, without its end. None: asked for twice. Raises `Invalid`."""
    if path is None:
        return _asked()
    try:
        if path == STANDARD_INPUT:
            data = sys.stdin.buffer.read(PASSWORD_BYTES_MAX + 2)
        else:
            with Path(path).open("rb") as file:
                data = file.read(PASSWORD_BYTES_MAX + 2)
        text = data.decode()
    except (OSError, ValueError) as error:
        raise Invalid(f"cannot read the password of {path}: {error}") from None
    password = text.removesuffix("\n").removesuffix("\r")
    if not password or "\n" in password or len(data) > PASSWORD_BYTES_MAX:
        raise Invalid(
            f"a password is one line of 1 to {PASSWORD_BYTES_MAX} bytes; see {path} for more"
        )
    return password


def _asked() -> str:
    if not sys.stdin.isatty():
        raise Invalid("no terminal to ask for a password: give --password-file FILE, or - for it")
    password = getpass.getpass("password: ")
    if not password:
        raise Invalid("a password is not empty")
    if getpass.getpass("again: ") != password:
        raise Invalid("these are two passwords; try again")
    return password
