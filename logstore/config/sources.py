"""Where settings are given: a TOML file, the environment, `--set`, flags. Pure.

    default < FILE.toml < environment LOGSTORE_… < --set NAME=VALUE < a flag of its own

Each function returns the values of one source by name, each with its origin; the caller merges them
in this order. Every value is checked, also one that a later source replaces.

`num.partitions` is `LOGSTORE_NUM_PARTITIONS` in the environment, and `logstore.cache.bytes` is
`LOGSTORE_CACHE_BYTES`. `LOGSTORE_NUM_PARTITIONS_FILE=/run/secrets/n` names a file with the value:
such a value is a secret, which printed settings, errors of settings and Kafka clients do not show.
An empty variable gives nothing.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from logstore.config.kinds import InvalidConfig, Setting, is_sensitive, nearest, unknown_name
from logstore.config.listener_settings import PREFIX as LISTENER_PREFIX
from logstore.config.listener_settings import split
from logstore.config.tls import REPLACED

PREFIX = "LOGSTORE_"
FILE_SUFFIX = "_FILE"
CONFIG_VARIABLE = "LOGSTORE_CONFIG"
"""Names the TOML file, like `--config`."""
NO_SETTINGS = frozenset({CONFIG_VARIABLE, "LOGSTORE_NATIVE", "LOGSTORE_CACHE"})
"""Variables that are read elsewhere."""
SET = "--set"
_SERVICE_LINK = re.compile(
    r"(?P<service>\w+)_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)?)"
)

ReadText = Callable[[str], str]
"""The text of a file. Raises `OSError` or `ValueError`."""


@dataclass(frozen=True, slots=True)
class GivenValue:
    text: str
    origin: str
    """Where a user finds it: a path, a variable's name, a flag."""
    is_hidden: bool = False


Given = Mapping[str, GivenValue]
"""Values by the name of their setting."""


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + re.sub(r"[.-]", "_", name.removeprefix("logstore.")).upper()


def from_toml(known: Mapping[str, Setting], document: Mapping[str, Any], path: str) -> Given:
    """Raises `InvalidConfig`, which names the file."""
    try:
        return _given(known, flatten(document), path)
    except InvalidConfig as error:
        raise InvalidConfig(f"{error}, in {path}") from error


def from_pairs(known: Mapping[str, Setting], pairs: Iterable[str]) -> Given:
    """From `name=value` texts. Raises `InvalidConfig`."""
    texts = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidConfig(f"not of the form name=value: {pair!r}")
        if is_sensitive(name.strip()):
            raise InvalidConfig(
                f"{name.strip()} is a secret and not taken by {SET}: other users of a machine see "
                f"command lines; name a file by {variable_of(name.strip())}{FILE_SUFFIX}"
            )
        texts[name.strip()] = value.strip()
    return _given(known, texts, SET)


def from_environment(
    known: Mapping[str, Setting], environment: Mapping[str, str], read: ReadText
) -> Given:
    """From all variables that begin with LOGSTORE_. Raises `InvalidConfig`."""
    names = {variable_of(name): name for name in known}
    given: dict[str, GivenValue] = {}
    for variable, text in sorted(environment.items()):
        if not variable.startswith(PREFIX) or not text or variable in NO_SETTINGS:
            continue
        stem = variable.removesuffix(FILE_SUFFIX)
        for one in (variable, stem):
            if one not in names and (of_listener := _listener_name(one, names)) in known:
                names[one] = of_listener
        if variable in names:
            value = GivenValue(text.strip(), variable)
        elif stem in names:
            value = GivenValue(_secret(variable, text, read), variable, is_hidden=True)
        elif _is_service_link(variable, text):
            continue
        else:
            raise _unknown_variable(variable, names)
        name = names.get(variable) or names[stem]
        if name in given:
            raise InvalidConfig(f"{given[name].origin} and {variable} are both set; unset one")
        _check(known[name], value)
        given[name] = value
    return given


def flatten(toml: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """Nested tables as dotted names, values as text."""
    flat: dict[str, str] = {}
    for key, value in toml.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{name}."))
        elif isinstance(value, bool):
            flat[name] = "true" if value else "false"
        elif isinstance(value, list):
            flat[name] = ",".join(map(str, value))
        else:
            flat[name] = str(value)
    return flat


def _listener_name(variable: str, names: Mapping[str, str]) -> str:
    """The name of a listener's setting by its variable; empty: it is none."""
    rest = variable.removeprefix(variable_of(LISTENER_PREFIX))
    if rest == variable:
        return ""
    for at in range(1, len(rest)):
        plain = names.get(PREFIX + rest[at + 1 :]) if rest[at] == "_" else None
        if plain is not None:
            name = f"{LISTENER_PREFIX}{rest[:at].lower()}.{plain}"
            return name if split(name)[1] else ""
    return ""


def _given(known: Mapping[str, Setting], texts: Mapping[str, str], origin: str) -> Given:
    for name, text in texts.items():
        if name in REPLACED:
            raise InvalidConfig(f"unknown configuration name: {name}: {REPLACED[name]}")
        if name not in known:
            raise unknown_name(name, known)
        known[name].parse(text)
    return {name: GivenValue(text, origin) for name, text in texts.items()}


def _check(setting: Setting, value: GivenValue) -> None:
    try:
        setting.parse(value.text)
    except InvalidConfig as error:
        if value.is_hidden:
            text = f"invalid value for configuration {setting.name}, in the file of {value.origin}"
            raise InvalidConfig(text) from None  # the error above quotes the value
        raise InvalidConfig(f"{error}, in {value.origin}") from error


def _secret(variable: str, path: str, read: ReadText) -> str:
    try:
        return read(path).strip()
    except (OSError, ValueError) as error:
        raise InvalidConfig(f"cannot read {path}, which {variable} names: {error}") from error


def _is_service_link(variable: str, text: str) -> bool:
    """Whether Kubernetes sets it in each pod beside a Service whose name begins with logstore."""
    if not _SERVICE_LINK.fullmatch(variable):
        return False
    return variable.endswith(("_HOST", "_ADDR", "_PROTO")) or bool(
        re.fullmatch(r"\d+|(?:tcp|udp|sctp)://\S+", text)
    )


def _unknown_variable(variable: str, names: Iterable[str]) -> InvalidConfig:
    hint = nearest(variable, names)
    return InvalidConfig(
        f"no setting has the environment variable {variable}{hint or '; unset it'}"
    )
