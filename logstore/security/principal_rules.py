"""Names of principals by the subjects of certificates: `ssl.principal.mapping.rules`. Pure.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),.*$/$1/L,DEFAULT

The first rule whose pattern is the whole subject makes the name: its replacement, with `$1` for a
group, in small (`L`) or capital (`U`) letters. `DEFAULT` is the subject itself; without rules it is
the only one. A subject that no rule takes is refused, as by Kafka (`SslPrincipalMapper`).
"""

import re
from dataclasses import dataclass

from logstore.errors import Invalid
from logstore.security.bounded_pattern import BadPattern, BoundedPattern

SUBJECT_CHARACTERS_MAX = 1024
DEFAULT = "DEFAULT"
_NAME = "ssl.principal.mapping.rules"
_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/"
    r"(?P<replacement>(?:\\.|[^\\/])*)/(?P<letters>[LU]?))\s*(?:,|$)"
)
_GROUP = re.compile(r"\\(.)|\$(\d)|([^\\$])", re.DOTALL)


class NoRule(Invalid):
    """No rule takes the subject."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: BoundedPattern
    replacement: str
    letters: str

    def name_of(self, subject: str) -> str | None:
        groups = self.pattern.full_match(subject)
        if groups is None:
            return None

        def put(found: re.Match[str]) -> str:
            escaped, number, plain = found.groups()
            if number is None:
                return str(escaped or plain)
            at = int(number)
            if at == 0:
                return subject
            return groups[at - 1] if at <= len(groups) else f"${number}"

        name = _GROUP.sub(put, self.replacement)
        return {"L": name.lower, "U": name.upper}.get(self.letters, name.__str__)()


class PrincipalRules:
    def __init__(self, text: str) -> None:
        """Raises `Invalid` for rules that cannot be read."""
        self._rules: list[_Rule | None] = []
        at = 0
        while at < len(text.rstrip()):
            found = _RULE.match(text, at)
            if found is None:
                raise Invalid(
                    f"invalid value {text!r} for configuration {_NAME}: not DEFAULT or "
                    f"RULE:pattern/replacement/[LU] at {text[at : at + 40]!r}"
                )
            at = found.end()
            if found["default"]:
                self._rules.append(None)
                continue
            try:
                pattern = BoundedPattern(found["pattern"].replace("\\/", "/"))
            except BadPattern as error:
                raise Invalid(f"invalid value for configuration {_NAME}: {error}") from error
            self._rules.append(_Rule(pattern, found["replacement"], found["letters"]))

    def name_of(self, subject: str) -> str:
        """Returns the name of the principal, without its `User:`. Raises `NoRule`."""
        if len(subject) > SUBJECT_CHARACTERS_MAX:
            raise NoRule(f"subject too long: characters={len(subject)}")
        for rule in self._rules or (None,):
            name = subject if rule is None else rule.name_of(subject)
            if name:
                return name
        raise NoRule(f"no rule of {_NAME} takes the subject {subject!r}")
