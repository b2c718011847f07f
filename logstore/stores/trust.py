"""Which parts of a log's cluster.json are believed: every writer of the log's place can write it.

A log that a stranger sends must not make this process write a file elsewhere, nor sign requests
with its credentials for his server. So

    a registry in a file    lies in the log's directory, on a way without a link
    a DynamoDB endpoint     is AWS's own by https, on this machine, or named by the caller too, by
                            `storage.dynamodb.endpoint` or the AWS environment
"""

import re
import stat
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from logstore.config.address_overrides import is_loopback
from logstore.errors import Invalid, Refused

ENDPOINT = "storage.dynamodb.endpoint"

_BESIDE = ("", "-wal", "-shm", "-journal", "-turn")
"""Files of one registry: SQLite's, and the lock of `registry.turn`."""
_AWS = re.compile(
    r"(?:vpce-[a-z0-9-]+\.|[0-9]{12}\.)?"
    r"(?:dynamodb|dynamodb-fips|ddb)\.[a-z0-9-]+"
    r"\.(?:vpce\.)?(?:amazonaws\.com|amazonaws\.com\.cn|amazonaws\.eu|api\.aws)"
)


def check_path(path: str) -> None:
    """Raises `Invalid` for the path of a registry that leaves the log's directory."""
    parts = PurePosixPath(path).parts
    if not parts or parts[0] == "/" or ".." in parts or "\0" in path:
        raise Invalid(
            f"a registry's file lies in the log's directory: path={path!r}; write sqlite:NAME"
        )


def check_file(directory: Path, path: str) -> None:
    """Raises `Refused` where a file of the registry, or a folder on its way, is something else."""
    check_path(path)
    parts = PurePosixPath(path).parts
    folders = [directory.joinpath(*parts[:count]) for count in range(1, len(parts))]
    files = [directory / f"{path}{end}" for end in _BESIDE]
    for place in [*folders, *files]:
        try:
            mode = place.lstat().st_mode
        except FileNotFoundError:
            continue
        except OSError as error:
            raise Refused(f"cannot look at the registry: {error}; check its folder") from error
        if not (stat.S_ISREG(mode) if place in files else stat.S_ISDIR(mode)):
            raise Refused(
                f"the way to the registry is no file of the log: path={place}; a link could lead "
                "elsewhere: move the registry into the log's directory"
            )


def check_endpoint(endpoint: str | None, given: Collection[str | None]) -> None:
    """Raises `Refused` for the endpoint of a registry's table that the caller did not give."""
    if endpoint is None:
        return
    parts = urlsplit(endpoint)
    host = (parts.hostname or "").lower()
    if is_loopback(host) or (parts.scheme == "https" and _AWS.fullmatch(host)):
        return
    if endpoint.rstrip("/") not in {one.rstrip("/") for one in given if one}:
        raise Refused(
            f"the log names a server for its registry that is not AWS's: endpoint={endpoint!r}; "
            "requests to it would bear your credentials: if it is yours, say so by "
            f"{ENDPOINT} or AWS_ENDPOINT_URL_DYNAMODB"
        )
