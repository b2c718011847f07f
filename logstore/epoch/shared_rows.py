"""Rows that all brokers go by, as last read: quotas of clients, settings of brokers, ACLs, users.

A row of ACLs never goes back here: one of a lower version is of a registry that was put back from
an older copy, and would bring back what was revoked.
"""

import logging
from collections.abc import Callable

from logstore.formats.config_row import BrokerConfigs
from logstore.formats.quota_row import Quotas
from logstore.formats.user_row import Users
from logstore.protocol.rows.acls import AclShards
from logstore.protocol.rows.view import RegistryUpdate

logger = logging.getLogger(__name__)


class SharedRows:
    def __init__(self) -> None:
        self.broker_configs: BrokerConfigs = {}
        """Settings of brokers that were changed while they ran."""
        self.quotas: Quotas = {}
        """Of clients."""
        self.acls: AclShards = {}
        """By shard. Another mapping after each change."""
        self.users: Users = {}
        """By name."""
        self._callbacks: list[Callable[[], None]] = []

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back now, and whenever some of them have changed, in the order of these calls."""
        self._callbacks.append(callback)
        callback()

    def take(self, update: RegistryUpdate) -> None:
        """Take what was read, and call back if it is something else."""
        known = (self.quotas, self.broker_configs, self.users)
        self.users = known[2] if update.users is None else update.users
        self.quotas = known[0] if update.quotas is None else update.quotas
        self.broker_configs = known[1] if update.configs is None else update.configs
        has_acls = update.acls is not None and self._take_acls(update.acls)
        if has_acls or (self.quotas, self.broker_configs, self.users) != known:
            for callback in self._callbacks:
                callback()

    def _take_acls(self, read: AclShards) -> bool:
        taken = dict(self.acls)
        for shard, known in self.acls.items():
            version = read[shard].version if shard in read else 0
            if version < known.version:
                logger.warning(
                    "registry has older ACLs than this broker has read, which stay: row=acl/%s "
                    "version=%d known=%d; start a broker, which raises it",
                    shard,
                    version,
                    known.version,
                )
        taken.update(
            (shard, one)
            for shard, one in read.items()
            if shard not in taken or one.version > taken[shard].version
        )
        has_changed = any(self.acls.get(shard) is not one for shard, one in taken.items())
        self.acls = taken
        return has_changed
