"""Effective settings as text, TOML and JSON: value, origin, and what each trades. Pure."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from logstore.config.kinds import Setting, SettingKind, is_sensitive
from logstore.config.sources import Given, variable_of

TEXT, TOML, JSON = "text", "toml", "json"
FORMATS = (TEXT, TOML, JSON)
DEFAULT = "default"
HIDDEN = "(hidden)"
_LOGIN = re.compile(r"://[^/@\s]*@")
_NOT_QUOTED = (SettingKind.BOOLEAN, SettingKind.INT, SettingKind.LONG)


@dataclass(frozen=True, slots=True)
class PrintedSetting:
    setting: Setting
    text: str
    origin: str
    is_hidden: bool


def effective(
    known: Mapping[str, Setting], given: Given, derived: Mapping[str, tuple[str, str]]
) -> list[PrintedSetting]:
    """All of `known`, sorted by name.

    `derived`: values that follow from others, text and name of the other.
    """
    lines = []
    for name in sorted({*known, *given}):
        setting = known[name]
        if name in given:
            value = given[name]
            hidden = value.is_hidden or is_sensitive(name) or has_login(name, value.text)
            lines.append(PrintedSetting(setting, value.text, value.origin, hidden))
        elif name in derived:
            text, origin = derived[name]
            lines.append(PrintedSetting(setting, text, origin, given[origin].is_hidden))
        else:
            lines.append(PrintedSetting(setting, setting.default, DEFAULT, is_hidden=False))
    return lines


def render(lines: Iterable[PrintedSetting], style: str) -> str:
    """One of `FORMATS`; the TOML is a file for `--config` that gives the same settings."""
    match style:
        case "json":
            return json.dumps({"settings": list(map(_json, lines))}, indent=2) + "\n"
        case "toml":
            return "\n".join(map(_toml, lines))
        case _:
            return "\n".join(map(_text, lines))


def has_login(name: str, text: str) -> bool:
    """Whether a value has a user or a password in a URL: a broker refuses it, and shows it no more.

    In an endpoint every @ counts, since a password may have any character.
    """
    return _LOGIN.search(text) is not None or (name.endswith(".endpoint") and "@" in text)


def _text(line: PrintedSetting) -> str:
    shown = HIDDEN if line.is_hidden else line.text or "-"
    name = line.setting.name
    return f"{name} = {shown}  ({line.origin})\n    {line.setting.documentation}\n"


def _toml(line: PrintedSetting) -> str:
    name = line.setting.name
    head = f"# {line.setting.documentation}\n# {variable_of(name)}; value from: {line.origin}\n"
    if line.is_hidden:
        return f'{head}# "{name}" = {HIDDEN}\n'
    comment = "# " if line.origin == DEFAULT else ""
    return f'{head}{comment}"{name}" = {_toml_value(line)}\n'


def _toml_value(line: PrintedSetting) -> str:
    if line.text and line.setting.kind in _NOT_QUOTED:
        return line.text.strip().lower()
    # A TOML string takes JSON's escapes; DEL alone is one that JSON writes as it is.
    return json.dumps(line.text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _json(line: PrintedSetting) -> dict[str, str | bool | None]:
    return {
        "name": line.setting.name,
        "value": None if line.is_hidden else line.text,
        "origin": line.origin,
        "hidden": line.is_hidden,
        "default": line.setting.default,
        "variable": variable_of(line.setting.name),
        "documentation": line.setting.documentation,
    }
