"""Where a registry's DynamoDB table is: `dynamodb://TABLE?region=REGION&endpoint=URL`.

Both parameters may be missing: the AWS environment then says where. The URL lies in cluster.json
for every reader to see, so it never holds credentials. Pure.
"""

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit

from logstore.errors import Invalid

SCHEME = "dynamodb"
FORM = "dynamodb://TABLE?region=REGION&endpoint=URL"

_TABLE = re.compile(r"[a-zA-Z0-9_.-]{3,255}")
_REGION = re.compile(r"[a-z0-9-]{1,64}")
_PARAMETERS = ("region", "endpoint")


@dataclass(frozen=True, slots=True)
class TableUrl:
    table: str
    region: str | None = None
    endpoint: str | None = None
    """For servers that are not AWS's."""

    def __str__(self) -> str:
        """The form that cluster.json holds: equal places are equal text."""
        given = [("region", self.region), ("endpoint", self.endpoint)]
        query = "&".join(f"{name}={quote(value, safe='/:')}" for name, value in given if value)
        return f"{SCHEME}://{self.table}{'?' if query else ''}{query}"


def same_place(one: TableUrl, other: TableUrl) -> bool:
    """Whether both may be one table: a region that is not said may be any."""
    regions = {one.region, other.region} - {None}
    return (one.table, one.endpoint) == (other.table, other.endpoint) and len(regions) < 2


def is_table_url(url: str) -> bool:
    return url.startswith(f"{SCHEME}:")


def parse_table_url(url: str) -> TableUrl:
    """Raises `Invalid` for an invalid `url`, with the reason."""
    parts = _split(url, url)
    if parts.scheme != SCHEME or not url.startswith(f"{SCHEME}://"):
        raise Invalid(f"not the URL of a DynamoDB table: url={url}; write {FORM}")
    if "@" in parts.netloc:
        raise Invalid("a registry's URL holds no credentials; give them by the AWS environment")
    if _TABLE.fullmatch(parts.netloc) is None:
        raise Invalid(
            f"not the name of a DynamoDB table: table={parts.netloc!r}; 3 to 255 letters, digits, "
            "'_', '-' and '.'"
        )
    if parts.path.strip("/") or parts.fragment:
        raise Invalid(f"nothing may follow the table but parameters: url={url}; write {FORM}")
    given = _parameters(parts.query, url)
    region, endpoint = given.get("region") or None, given.get("endpoint") or None
    if region is not None and _REGION.fullmatch(region) is None:
        raise Invalid(f"not the name of a region: region={region!r}; such as eu-west-1")
    if endpoint is not None:
        endpoint = _endpoint(endpoint)
    return TableUrl(parts.netloc, region, endpoint)


def _parameters(query: str, url: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _PARAMETERS:
            raise Invalid(f"unknown parameter of a registry's URL: name={name}; write {FORM}")
        if name in given:
            raise Invalid(f"a parameter is given twice: name={name} url={url}")
        given[name] = value.strip()
    return given


def _endpoint(endpoint: str) -> str:
    parts = _split(endpoint, endpoint)
    if "@" in parts.netloc:
        raise Invalid("an endpoint holds no credentials; give them by the AWS environment")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise Invalid(f"not an endpoint: endpoint={endpoint}; such as https://host:8000")
    return endpoint.rstrip("/")


def _split(text: str, url: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise Invalid(f"not a URL: url={url}: {error}") from error
    return parts
