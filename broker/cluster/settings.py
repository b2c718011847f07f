"""The controller's settings, from the broker's."""

from dataclasses import dataclass

from broker.cluster.decisions.balance import BalanceRules
from broker.cluster.decisions.decide import Rules
from broker.cluster.decisions.fencing import FencingRules
from logstore.config.broker import BrokerSettings
from logstore.protocol.leading.start import LEASE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    rules: Rules
    balance_every_s: float
    lease_s: float = LEASE_S

    @staticmethod
    def of(settings: BrokerSettings) -> "ControllerSettings":
        return ControllerSettings(
            rules=Rules(
                FencingRules(settings.number("logstore.put.age.max.ms")),
                BalanceRules(
                    settings.flag("auto.leader.rebalance.enable"),
                    settings.number("leader.imbalance.per.broker.percentage"),
                ),
                settings.number("logstore.broker.gone.ms") / 1000,
            ),
            balance_every_s=settings.number("leader.imbalance.check.interval.seconds"),
        )
