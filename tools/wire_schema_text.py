"""Shared by both halves of the code generator: names, literals, and functions kept once."""

import re
import textwrap
from collections.abc import Callable

WIDTH = {"?": 1, "x": 1, "b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}
"""Bytes of each code of the struct module that Kafka's types need."""


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def literal(value: object) -> str:
    if value == bytes(16):
        return "ZERO_UUID"
    return f'"{value}"' if isinstance(value, str) else repr(value)


class Functions:
    """The functions and Structs of one module; functions of equal text are kept once."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.structs: dict[str, str] = {}
        self._names: dict[tuple[str, str], str] = {}

    def add(self, stem: str, version: int, write: Callable[[str], str]) -> str:
        """`write(name)` gives the function's text; returns the name under which it exists."""
        key = (stem, write("_"))
        if key not in self._names:
            self._names[key] = f"_{stem}_v{version}"
            self.text.append(write(self._names[key]))
        return self._names[key]

    def packer(self, codes: list[str]) -> str:
        return self._struct(codes, "pack", "pack")

    def unpacker(self, codes: list[str]) -> str:
        return self._struct(codes, "unpack", "unpack_from")

    def run(self, codes: list[str]) -> str:
        name = f"_{_letters(codes)}"
        self.structs[name] = f'Struct(">{"".join(codes)}")'
        return name

    def numbers(self, code: str) -> str:
        name = f"_put_{_letters([code])}"
        self.structs[name] = f'numbers(Struct(">{code}"))'
        return name

    def fixed(self, code: str) -> str:
        name = f"_FIXED_{_letters([code]).upper()}"
        self.structs[name] = f'Struct(">{code}")'
        return name

    def _struct(self, codes: list[str], verb: str, method: str) -> str:
        name = f"_{verb}_{_letters(codes)}"
        self.structs[name] = f'Struct(">{"".join(codes)}").{method}'
        return name


def indent(lines: list[str], depth: int = 1) -> list[str]:
    return textwrap.indent("\n".join(lines), "    " * depth).split("\n") if lines else []


def _letters(codes: list[str]) -> str:
    return "".join({"?": "o", "16s": "u", "B": "c", "H": "w", "I": "y"}.get(c, c) for c in codes)
