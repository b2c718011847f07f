"""By which names a browser may ask for pages: the `Host` header of a request. Pure.

A page of another site may point its own name at this machine (DNS rebinding); a browser then lets
it read all that it asks for under that name. So a name counts if the operator gave it. An address
needs no check: no site but the one at that address has it as its name.
"""

import re
from collections.abc import Collection
from ipaddress import ip_address

HOSTS = "logstore.http.hosts"
OWN_NAMES = frozenset({"localhost"})

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:]*)(?::[0-9]{0,5})?")


def is_own_host(header: str, names: Collection[str]) -> bool:
    """Whether a `Host` header has an address, or one of `names`, which are lower case."""
    match = _HOST.fullmatch(header)
    if match is None:
        return False
    host = match[1].removeprefix("[").removesuffix("]").rstrip(".").lower()
    if host in OWN_NAMES or host in names:
        return True
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def parse_hosts(text: str) -> frozenset[str]:
    """Names from a text with commas between."""
    return frozenset(name for name in (part.strip().lower() for part in text.split(",")) if name)
