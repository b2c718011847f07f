"""File descriptors: as many as the system allows, and some of them kept for store and registry.

A broker that spends its last descriptor on an idle client can no longer open a file or a connection
to the store: then no Produce succeeds until clients leave.
"""

import logging
import resource

from logstore.config.broker import BrokerSettings

RESERVE = 256
"""For listeners, peers, store, registry and threads of readers."""

CONNECTIONS_MAX = "max.connections"

logger = logging.getLogger(__name__)


def raise_limit() -> int:
    """Raise RLIMIT_NOFILE to its hard limit; how many descriptors this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError) as error:  # macOS: "unlimited" is more than it allows
            logger.warning("RLIMIT_NOFILE stays at %s of %s: %s", soft, hard, error)
    return soft


def limit_connections(settings: BrokerSettings, descriptors: int) -> BrokerSettings:
    """`settings` with as many connections as descriptors are left for, also once they are changed;
    says so where it lowers them."""
    wanted = settings.number(CONNECTIONS_MAX)
    left = max(1, descriptors - RESERVE)
    if descriptors == resource.RLIM_INFINITY:
        return settings
    at_most = {CONNECTIONS_MAX: left}
    if wanted <= left:
        return BrokerSettings(settings.given, hidden=settings.hidden, at_most=at_most)
    logger.warning(
        "max.connections is lowered: asked=%s allowed=%s RLIMIT_NOFILE=%s; raise the limit "
        "(systemd: LimitNOFILE, Docker: --ulimit nofile)",
        wanted,
        left,
        descriptors,
    )
    given = {**settings.given, CONNECTIONS_MAX: str(left)}
    return BrokerSettings(given, hidden=settings.hidden, at_most=at_most)
