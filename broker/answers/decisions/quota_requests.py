"""Client quotas as requests name, change and ask for them, checked as Kafka does. Pure.

Errors are those of `ClientQuotaControlManager` and `ClientQuotasImage`. An address is not resolved:
it has to be one, as for `max.connections.per.ip.overrides`. Negative rates are refused; 0 lets
nothing pass.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from broker.answers.decisions.refuse import Refuse
from broker.network.decisions.quota_rules import CLIENT_KINDS, QuotaKind
from logstore.config.address_overrides import plain_address
from logstore.formats.quota_row import CLIENT_ID, DEFAULT, IP, USER, QuotaEntity
from logstore.wire.errors import ErrorCode

EXACT, DEFAULT_ONE, SPECIFIED = 0, 1, 2
WHOLE = (QuotaKind.PRODUCE, QuotaKind.FETCH, QuotaKind.CONNECTION)
WHOLE_MOST = 2**63 - 1


class NamedPart(Protocol):
    entity_type: str
    entity_name: str | None


class QuotaOperation(Protocol):
    key: str
    value: float
    remove: bool


class Component(Protocol):
    entity_type: str
    match_type: int
    match: str | None


# Changes


def parse_entity(parts: Sequence[NamedPart]) -> QuotaEntity:
    """Raises `Refuse`."""
    names: dict[str, str] = {}
    for part in parts:
        kind, name = part.entity_type, part.entity_name
        if kind in names:
            raise _invalid(f"an entity type is named twice: type={kind}")
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"no such entity type: type={kind}")
        if name == DEFAULT:
            raise _invalid(f"an empty {kind} is not supported; null names the default")
        names[kind] = DEFAULT if name is None else name
    if not names:
        raise _invalid("the entity of a quota is empty")
    if IP not in names:
        return QuotaEntity(names.get(USER), names.get(CLIENT_ID))
    if len(names) > 1:
        raise _invalid("quotas of addresses have no users and no client ids")
    return QuotaEntity(ip=_address(names[IP]))


def _address(name: str) -> str:
    if name == DEFAULT:
        return name
    try:
        return plain_address(name)
    except ValueError:
        raise _invalid(f"not an IP address: ip={name!r}") from None


def parse_operations(
    entity: QuotaEntity, operations: Sequence[QuotaOperation]
) -> Mapping[str, float | None]:
    """New values by name; None: the value goes. Raises `Refuse`."""
    known = CLIENT_KINDS if entity.ip is None else (QuotaKind.CONNECTION,)
    change: dict[str, float | None] = {}
    for one in operations:
        if one.key in change:
            raise _invalid(f"a quota is changed twice: name={one.key}")
        if one.remove:
            change[one.key] = None
            continue
        if one.key not in known:
            raise _invalid(f"no such quota: name={one.key}; there are {', '.join(known)}")
        _check_value(one.key, one.value)
        change[one.key] = one.value
    return change


def _check_value(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise _invalid(f"a quota is a number from 0 on: {name}={value}")
    if name in WHOLE and not (value.is_integer() and value <= WHOLE_MOST):
        raise _invalid(f"a quota of this name is a whole number: {name}={value}")


# Filters


class QuotaFilter(NamedTuple):
    """`exact`: names by kind; `specified`: kinds of which any name will do."""

    exact: Mapping[str, str]
    specified: frozenset[str]
    is_strict: bool
    """Whether entities with other kinds beside are left out."""

    def matches(self, entity: QuotaEntity) -> bool:
        names = dict(entity.parts)
        count = len(self.exact) + len(self.specified)
        if self.is_strict and (len(names) != count or not count):
            return False
        if not names.keys() >= self.specified:
            return False
        return all(names.get(kind) == name for kind, name in self.exact.items())


def parse_filter(components: Iterable[Component], *, is_strict: bool) -> QuotaFilter:
    """Raises `Refuse`."""
    exact: dict[str, str] = {}
    specified: set[str] = set()
    for one in components:
        kind = one.entity_type
        if not kind:
            raise _invalid("an entity type is empty")
        if kind in exact or kind in specified:
            raise _invalid(f"an entity type is named twice: type={kind}")
        if kind not in (USER, CLIENT_ID, IP):
            raise Refuse(ErrorCode.UNSUPPORTED_VERSION, f"no such entity type: type={kind}")
        if one.match_type not in (EXACT, DEFAULT_ONE, SPECIFIED):
            raise _invalid(f"no such way to match: match_type={one.match_type}")
        if (one.match_type == EXACT) != (one.match is not None):
            raise _invalid(
                f"exact matches need a name, others take none: type={kind} "
                f"match_type={one.match_type}"
            )
        if one.match_type == SPECIFIED:
            specified.add(kind)
        else:
            exact[kind] = one.match or DEFAULT
    if IP in (kinds := exact.keys() | specified) and len(kinds) > 1:
        raise _invalid("quotas of addresses have no users and no client ids: ask for ip alone")
    return QuotaFilter(exact, frozenset(specified), is_strict)


def _invalid(why: str) -> Refuse:
    return Refuse(ErrorCode.INVALID_REQUEST, why)
