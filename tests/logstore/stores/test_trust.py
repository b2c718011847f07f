"""A log that a stranger sends has no file made elsewhere, and gets no signed request."""

import asyncio
import random
from pathlib import Path

import pytest

from logstore.errors import Invalid, Refused
from logstore.formats.keys import CLUSTER_KEY
from logstore.objects.directory import DirectoryStore
from logstore.ports.clock import SystemClock
from logstore.protocol.chain.identity import Identity, encode_identity
from logstore.registry.dynamodb_json.url import parse_table_url
from logstore.stores.backends import Backends
from logstore.stores.location import DirectoryLocation
from logstore.stores.trust import check_endpoint
from logstore.wiring.open import open_log, open_readable

HIS = "http://his.example:8000"


def sent(directory: Path, registry: str) -> str:
    """The URL of a log that says where its registry is."""
    identity = encode_identity(Identity(b"\x01" * 16, registry))
    directory.mkdir(exist_ok=True)
    DirectoryStore(directory).create(CLUSTER_KEY, [identity])
    return str(directory)


async def serve(url: str) -> None:
    await (await open_log(url, clock=SystemClock(), rng=random.Random(1))).close()


@pytest.mark.parametrize("path", ["../x", "a/../../x", "{outside}", "", "."])
def test_a_registry_outside_the_log_is_refused_and_not_made(tmp_path: Path, path: str) -> None:
    outside = tmp_path / "x"
    url = sent(tmp_path / "log", f"sqlite:{path.format(outside=outside)}")
    with pytest.raises(Invalid):
        asyncio.run(serve(url))
    with pytest.raises(Invalid):
        open_readable(url)
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


@pytest.mark.parametrize("name", ["x", "x-wal", "x-shm", "x-journal", "x-turn", "folder"])
def test_a_registry_by_a_link_is_refused_and_not_made(tmp_path: Path, name: str) -> None:
    url = sent(tmp_path / "log", "sqlite:folder/x" if name == "folder" else "sqlite:x")
    (tmp_path / "log" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="link"):
        asyncio.run(serve(url))
    assert not (tmp_path / "elsewhere").exists()


def test_the_logs_own_directory_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "log").symlink_to(tmp_path / "disk")
    asyncio.run(serve(str(tmp_path / "log")))
    assert (tmp_path / "disk" / "registry.db").exists()


def test_no_request_is_signed_for_a_server_that_the_log_alone_names(tmp_path: Path) -> None:
    registry = f"dynamodb://rows?region=eu-west-1&endpoint={HIS}"
    url = sent(tmp_path / "log", registry)
    with pytest.raises(Refused, match=r"storage\.dynamodb\.endpoint"):
        open_readable(url)
    with pytest.raises(Refused, match=r"his\.example"):
        asyncio.run(serve(url))
    place = DirectoryLocation(tmp_path / "log")
    for given in ("http://other.example", "http://his.example:8001"):
        with pytest.raises(Refused):
            Backends(place, {"storage.dynamodb.endpoint": given}).rows(registry, "read")
    assert Backends(place, {"storage.dynamodb.endpoint": f"{HIS}/"}).rows(registry, "read")
    assert Backends(place).rows(registry, "read", given=registry)
    with pytest.raises(Refused):
        Backends(place).rows(registry, "read", given="dynamodb://rows")


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://dynamodb.eu-west-1.amazonaws.com",
        "https://dynamodb-fips.us-gov-east-1.amazonaws.com",
        "https://dynamodb.cn-north-1.amazonaws.com.cn",
        "https://123456789012.ddb.eu-west-1.amazonaws.com",
        "https://vpce-0a-1b.dynamodb.eu-west-1.vpce.amazonaws.com",
        "http://127.0.0.1:8000",
        "http://localhost:8000",
        "http://[::1]:8000",
    ],
)
def test_servers_of_aws_and_of_this_machine_count(endpoint: str) -> None:
    check_endpoint(parse_table_url(f"dynamodb://rows?endpoint={endpoint}").endpoint, ())


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://dynamodb.eu-west-1.amazonaws.com",
        "https://ec2-1-2-3-4.compute-1.amazonaws.com",
        "https://his.execute-api.eu-west-1.amazonaws.com",
        "https://his.dynamodb.eu-west-1.amazonaws.com",
        "https://dynamodb.eu-west-1.amazonaws.com.his.example",
        "http://127.0.0.1.his.example",
        "http://169.254.169.254",
        "http://10.0.0.7:8000",
    ],
)
def test_servers_of_others_do_not_count(endpoint: str) -> None:
    with pytest.raises(Refused):
        check_endpoint(parse_table_url(f"dynamodb://rows?endpoint={endpoint}").endpoint, (HIS,))
