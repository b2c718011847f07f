"""`logstore acls` beside a broker: what it adds is listed, and removed by any part of it."""

from collections.abc import Iterator

import pytest

from logstore.cli.command import FAILED, OK
from tests.broker.acl_calls import SECURED
from tests.broker.running import Running, running_broker
from tests.logstore.cli.conftest import Command


@pytest.fixture(scope="module")
def broker() -> Iterator[Running]:
    """Whose clients, which do not log in, may change ACLs."""
    with running_broker({**SECURED, "super.users": "User:ANONYMOUS"}) as running:
        yield running


@pytest.fixture
def bootstrap(broker: Running) -> str:
    return f"127.0.0.1:{broker.listener.port}"


def test_acls_are_added_listed_and_removed(logstore: Command, bootstrap: str) -> None:
    def acls(*arguments: str) -> list[dict[str, str]]:
        answer = logstore("acls", *arguments, "--bootstrap", bootstrap, "--json")
        assert (answer.code, answer.err) == (OK, "")
        listed: list[dict[str, str]] = answer.json
        return listed

    both = ("--operation", "read", "--operation", "write")
    assert len(acls("add", "--topic", "orders", "--allow", "User:a", *both)) == 2
    acls("add", "--group", "g-", "--prefixed", "--deny", "User:b", "--operation", "all")
    acls("add", "--cluster", "--allow", "User:a", "--operation", "describe", "--host", "10.0.0.1")

    assert len(acls("list")) == 4
    assert acls("list", "--principal", "User:b") == [
        {
            "resource": "GROUP",
            "name": "g-",
            "pattern": "PREFIXED",
            "principal": "User:b",
            "host": "*",
            "operation": "ALL",
            "permission": "DENY",
        }
    ]
    assert len(acls("remove", "--topic", "orders", "--operation", "write")) == 1
    assert len(acls("list", "--topic", "orders")) == 1
    assert len(acls("remove", "--principal", "User:a")) == 2
    assert len(acls("list")) == 1


def test_people_see_a_table(logstore: Command, bootstrap: str) -> None:
    answer = logstore(
        "acls",
        "add",
        "--topic",
        "t",
        "--allow",
        "User:x",
        "--operation",
        "read",
        "--bootstrap",
        bootstrap,
    )
    assert "added 1" in answer.out
    assert "ALLOW" in answer.out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("remove",), "nothing was removed"),
        (("add", "--allow", "User:a", "--operation", "read"), "say on what"),
        (("add", "--topic", "t", "--allow", "alice", "--operation", "read"), "write User:NAME"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    logstore: Command, bootstrap: str, arguments: tuple[str, ...], text: str
) -> None:
    answer = logstore("acls", *arguments, "--bootstrap", bootstrap)
    assert answer.code == FAILED
    assert text in answer.err
    assert answer.err.count("\n") == 1
