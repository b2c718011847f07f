"""File descriptors: as many as the system allows, and some of them kept for store and registry.

A broker that spends its last descriptor on an idle client can no longer open a file or a connection
to the store: then no Produce succeeds until clients leave. A limit that leaves too few for clients
is refused at the start: a broker that listens and then serves one client is worse than none.
"""

import codecs
import logging
import resource

from logstore.config.broker import BrokerSettings
from logstore.errors import Refused

UNLIMITED = resource.RLIM_INFINITY

RESERVE = 256
"""For listeners, peers, store, registry and threads of readers."""

CONNECTIONS_MIN = 64
"""Fewer are no service: a group of consumers has a few connections for each member."""
FINITE_LIMITS = (65_536, 10_240)
"""Tried where the hard limit is unlimited and cannot be had; the second is that of macOS."""
CODECS_OF_ERRORS = ("unicode_escape", "idna")
"""Codecs are modules, read at first use: by a log line, when no descriptor is left to read them."""

CONNECTIONS_MAX = "max.connections"

logger = logging.getLogger(__name__)


def raise_limit() -> int:
    """Raise RLIMIT_NOFILE to its hard limit, or near. Returns the descriptors that there may be."""
    for codec in CODECS_OF_ERRORS:
        codecs.lookup(codec)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    finite = [one for one in FINITE_LIMITS if one > soft] if hard == UNLIMITED else []
    for wanted in (hard, *finite):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:  # macOS: "unlimited" is more than it allows
            logger.warning("RLIMIT_NOFILE cannot be %s of %s: %s", wanted, hard, error)
        else:
            return wanted
    return soft


def limit_connections(settings: BrokerSettings, descriptors: int) -> BrokerSettings:
    """Returns `settings` with as many connections as descriptors are left for, also once they are
    changed; says so where it lowers them. Raises `Refused` where too few are left.
    """
    wanted = settings.number(CONNECTIONS_MAX)
    if descriptors == UNLIMITED:
        return settings
    left = descriptors - RESERVE
    needed = min(wanted, CONNECTIONS_MIN)
    if left < needed:
        raise Refused(
            f"too few file descriptors to serve: RLIMIT_NOFILE={descriptors} "
            f"needed={RESERVE + needed} ({RESERVE} for store and registry, {needed} for clients); "
            f"raise the limit: ulimit -n {RESERVE + wanted} (systemd: LimitNOFILE, Docker: "
            "--ulimit nofile)"
        )
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
