"""Which authorizer a broker asks, by its settings."""

from broker.access.standard_authorizer import StandardAuthorizer
from broker.network.authorizer import AllowAll, Authorizer
from logstore.config.authorizer_settings import parse_super_users
from logstore.config.broker import BrokerSettings
from logstore.epoch.shared_rows import SharedRows


def authorizer_of(settings: BrokerSettings, rows: SharedRows) -> Authorizer:
    """Returns the authorizer that was chosen; it follows the ACLs in `rows`."""
    if not settings.text("authorizer.class.name"):
        return AllowAll()
    authorizer = StandardAuthorizer(
        parse_super_users(settings.text("super.users")),
        is_open_without_acl=settings.flag("allow.everyone.if.no.acl.found"),
    )
    rows.watch(lambda: authorizer.follow(rows.acls))
    return authorizer
