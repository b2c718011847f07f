"""Settings of a client in a file, as Kafka's tools take them (`--command-config`). Pure.

    security.protocol=SASL_PLAINTEXT
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
        username="alice" password="...";

Names that are not about security are left out: the file may be one of another client.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from logstore.config.kinds import InvalidConfig
from logstore.config.listener_security import BUILTIN_PROTOCOLS, SecurityProtocol
from logstore.security.scram import HASHES

PROTOCOL, MECHANISM, JAAS = "security.protocol", "sasl.mechanism", "sasl.jaas.config"

_ITEM = re.compile(r"(?P<name>[^=:\s]+)\s*[=:\s]\s*(?P<value>.*)")
_OPTION = re.compile(r'(?P<name>\w+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s;"]+))')
_MODULE = re.compile(r"\s*(?P<module>[\w.]+)\s+required\s+(?P<options>.*?)\s*;\s*", re.S)


class JaasLogin(NamedTuple):
    mechanism: str
    name: str
    password: str

    def __repr__(self) -> str:
        return f"JaasLogin({self.mechanism}, {self.name})"


class ClientProperties(NamedTuple):
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    login: JaasLogin | None = None


def parse_properties(text: str) -> Mapping[str, str]:
    """Values by name, of the form that Java has: comments, and lines that go on."""
    found: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        whole = line.strip()
        if not whole or whole[0] in "#!":
            continue
        while whole.endswith("\\"):
            whole = whole[:-1] + next(lines, "").strip()
        item = _ITEM.fullmatch(whole)
        if item is not None:
            found[item["name"]] = item["value"]
    return found


def client_properties(properties: Mapping[str, str]) -> ClientProperties:
    """Raises `InvalidConfig`, which names what is wrong, and no secret."""
    word = properties.get(PROTOCOL, "PLAINTEXT").strip().upper()
    protocol = BUILTIN_PROTOCOLS.get(word)
    if protocol is None:
        raise InvalidConfig(f"no such {PROTOCOL}: {word}; one of {', '.join(BUILTIN_PROTOCOLS)}")
    if not protocol.is_sasl:
        return ClientProperties(protocol)
    mechanism = properties.get(MECHANISM, "").strip()
    if mechanism not in HASHES:
        raise InvalidConfig(f"{MECHANISM} is {mechanism!r}: write one of {', '.join(HASHES)}")
    return ClientProperties(protocol, _login(mechanism, properties.get(JAAS, "")))


def _login(mechanism: str, jaas: str) -> JaasLogin:
    found = _MODULE.fullmatch(jaas)
    options = {
        one["name"]: one["bare"] if one["quoted"] is None else _unquoted(one["quoted"])
        for one in _OPTION.finditer("" if found is None else found["options"])
    }
    if not options.get("username") or "password" not in options:
        raise InvalidConfig(
            f"{JAAS} is not of the form: org.apache.kafka.common.security.scram."
            'ScramLoginModule required username="..." password="...";'
        )
    return JaasLogin(mechanism, options["username"], options["password"])


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
