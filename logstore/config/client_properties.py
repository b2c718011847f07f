"""Settings of a client in Kafka's file of them, `client.properties`: how it is secured. Pure.

    security.protocol=SASL_SSL
    ssl.truststore.location=/etc/ca.pem
    ssl.truststore.type=PEM
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
        username="alice" password="…";

Lines are Java's: NAME=VALUE or NAME: VALUE, `#` and `!` begin comments, a `\\` at the end goes on
in the next line. Names that have nothing to do with security are passed by, as files are shared
with other tools; of the others one that is not known is refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from logstore.config.kinds import InvalidConfig, by_name, unknown_name
from logstore.config.listener_security import SecurityProtocol
from logstore.config.tls import CLIENT_AUTH, INTER_BROKER, MAPPING_RULES, NAME_CHECK, TLS_SETTINGS

PROTOCOL, MECHANISM, JAAS = "security.protocol", "sasl.mechanism", "sasl.jaas.config"
SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OF_BROKERS = (CLIENT_AUTH, INTER_BROKER, MAPPING_RULES)
_TLS = by_name(one for one in TLS_SETTINGS if one.name not in _OF_BROKERS)
_KNOWN = (PROTOCOL, MECHANISM, JAAS, *_TLS)
_SECURITY = ("security.", "sasl.", "ssl.")
_PAIR = re.compile(r"((?:\\.|[^\\=:\s])+)\s*[=:\s]\s*(.*)", re.DOTALL)
_OPTION = re.compile(r"(\w+)\s*=\s*(?:\"((?:\\.|[^\"\\])*)\"|([^\s;\"]+))")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class ClientProperties:
    protocol: SecurityProtocol
    mechanism: str
    """Empty: no login."""
    user: str
    password: str = field(repr=False)
    _texts: Mapping[str, str] = field(repr=False)

    def text(self, name: str) -> str:
        """The text of a setting of TLS, or its default."""
        given = self._texts.get(name)
        return _TLS[name].default if given is None else given

    @property
    def checks_name(self) -> bool:
        """Whether the broker's certificate is to be for its address: as in Kafka, unless empty."""
        return self._texts.get(NAME_CHECK, "https") != ""


def parse_client_properties(text: str) -> ClientProperties:
    """Raises `InvalidConfig`, which shows no secret."""
    texts = dict(_pairs(text))
    for name, value in texts.items():
        if name in _TLS:
            _TLS[name].parse(value)
        elif name.startswith(_SECURITY) and name not in _KNOWN:
            raise unknown_name(name, _KNOWN)
    word = texts.get(PROTOCOL, SecurityProtocol.PLAINTEXT.value)
    if word not in SecurityProtocol.__members__:
        raise InvalidConfig(
            f"invalid value {word!r} for configuration {PROTOCOL}: not one of "
            f"{', '.join(SecurityProtocol.__members__)}"
        )
    protocol = SecurityProtocol[word]
    mechanism, user, password = _login(texts) if protocol.is_sasl else ("", "", "")
    return ClientProperties(protocol, mechanism, user, password, texts)


def _login(texts: Mapping[str, str]) -> tuple[str, str, str]:
    mechanism = texts.get(MECHANISM, "GSSAPI")
    if mechanism not in SCRAM_MECHANISMS:
        raise InvalidConfig(
            f"invalid value {mechanism!r} for configuration {MECHANISM}: not one of "
            f"{', '.join(SCRAM_MECHANISMS)}"
        )
    jaas = texts.get(JAAS, "")
    options = {name: _unescaped(quoted) or bare for name, quoted, bare in _OPTION.findall(jaas)}
    if "username" not in options or "password" not in options:
        raise InvalidConfig(
            f'{JAAS} names no user: write {SCRAM_MODULE} required username="…" password="…";'
        )
    return mechanism, options["username"], options["password"]


def _pairs(text: str) -> list[tuple[str, str]]:
    pairs = []
    lines = iter(text.splitlines())
    for line in lines:
        whole = line.strip()
        if not whole or whole[0] in "#!":
            continue
        while _goes_on(whole):
            whole = whole[:-1] + next(lines, "").lstrip()
        found = _PAIR.fullmatch(whole)
        name, value = found.groups() if found else (whole, "")
        pairs.append((_unescaped(name), _unescaped(value)))
    return pairs


def _goes_on(line: str) -> bool:
    """Whether it ends with an odd number of backslashes."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text, flags=re.DOTALL)
