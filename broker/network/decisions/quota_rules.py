"""Which quota a client has, in Kafka's order of precedence. Pure.

    1  user, client id          5  default user, default client id
    2  user, default client id  6  default user
    3  user                     7  client id
    4  default user, client id  8  default client id

The first that has a value of the kind prevails, and says who shares it: all requests of one user
with one client id (1, 2, 4, 5), of one user (3, 6), of one client id (7, 8). That is the order of
Kafka's `ClientQuotaManager.DefaultQuotaCallback`. An address has its own value, else that of the
default address.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from logstore.formats.quota_row import DEFAULT, QuotaEntity, Quotas


class QuotaKind(StrEnum):
    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"
    CONNECTION = "connection_creation_rate"


KINDS = frozenset(kind.value for kind in QuotaKind)
CLIENT_KINDS = (QuotaKind.PRODUCE, QuotaKind.FETCH, QuotaKind.REQUEST, QuotaKind.MUTATION)


class Limit(NamedTuple):
    """`rate` a second, shared by all requests of this `user` and `client_id` (None: of any)."""

    rate: float
    user: str | None
    client_id: str | None


class QuotaRules:
    def __init__(self, quotas: Quotas) -> None:
        self._rates: dict[QuotaKind, dict[QuotaEntity, float]] = {}
        for entity, values in quotas.items():
            for name, rate in values.items():
                if name in KINDS:
                    self._rates.setdefault(QuotaKind(name), {})[entity] = rate

    def has(self, kind: QuotaKind) -> bool:
        """Whether any client has a quota of this kind."""
        return kind in self._rates

    def limit_of(self, kind: QuotaKind, user: str, client_id: str) -> Limit | None:
        rates = self._rates.get(kind)
        return None if rates is None else _limit_of(rates, user, client_id)

    def address_rate(self, address: str) -> float | None:
        """Connections a second."""
        rates = self._rates.get(QuotaKind.CONNECTION, {})
        own = rates.get(QuotaEntity(ip=address))
        return rates.get(QuotaEntity(ip=DEFAULT)) if own is None else own


def _limit_of(rates: Mapping[QuotaEntity, float], user: str, client_id: str) -> Limit | None:
    for user_name in (user, DEFAULT):
        for client_name in (client_id, DEFAULT):
            rate = rates.get(QuotaEntity(user_name, client_name))
            if rate is not None:
                return Limit(rate, user, client_id)
        rate = rates.get(QuotaEntity(user_name))
        if rate is not None:
            return Limit(rate, user, None)
    for client_name in (client_id, DEFAULT):
        rate = rates.get(QuotaEntity(client_id=client_name))
        if rate is not None:
            return Limit(rate, None, client_id)
    return None
