"""Lines for auditors: one JSON line for each login, change and, a few a second, denial."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from broker.access.audit import LINES_PER_S, Denials, note_acls_changed, note_login
from broker.network.authorizer import Operation, Resource, ResourceKind
from logstore.ports.clock import SystemClock
from tests.broker.acl_calls import ADMIN, ALICE, SECURED, acl, delete, exactly, filter_of, make
from tests.broker.running import Running, fetch, running_broker

ORDERS = Resource(ResourceKind.TOPIC, "orders")
AUTHENTICATION, API_ACTIVITY = 3002, 6003
SUCCESS, FAILURE = 1, 2


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with running_broker(SECURED) as running:
        yield running


@pytest.fixture
def running(shared: Running) -> Running:
    return shared


@pytest.fixture(autouse=True)
def _all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "logstore.audit")


def lines_of(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(one.message) for one in caplog.records if one.name == "logstore.audit"]


def test_a_login_says_who_from_where_and_how_it_ended(caplog: pytest.LogCaptureFixture) -> None:
    fields = {
        "now_ms": 7,
        "principal": "User:a\n\x1b[31m",
        "peer": "10.0.0.7:5123",
        "mechanism": "SCRAM-SHA-512",
        "listener": "EXTERNAL",
    }
    note_login(**fields)  # type: ignore[arg-type]
    note_login(**fields, refusal="wrong user or password")  # type: ignore[arg-type]
    first, second = lines_of(caplog)

    assert (first["class_uid"], first["category_uid"]) == (AUTHENTICATION, 3)
    assert (first["activity_id"], first["type_uid"]) == (1, 300201)
    assert (first["status_id"], second["status_id"]) == (SUCCESS, FAILURE)
    assert first["user"] == {"name": "User:a\n\x1b[31m"}
    assert first["src_endpoint"] == {"ip": "10.0.0.7", "port": 5123}
    assert second["status_detail"] == "wrong user or password"
    assert all("\n" not in one.message and "\x1b" not in one.message for one in caplog.records)


def test_every_denial_is_counted_and_a_few_a_second_have_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_s = 0.0
    denials = Denials(SystemClock(), lambda: now_s)
    for _ in range(LINES_PER_S + 7):
        denials.note("Fetch", ALICE, "[::1]:5", Operation.READ, ORDERS)
    assert denials.by_api == {"Fetch": LINES_PER_S + 7}
    assert len(lines_of(caplog)) == LINES_PER_S
    now_s = 1.5
    denials.note("Produce", ALICE, "10.0.0.7:5", Operation.WRITE, ORDERS)
    line = lines_of(caplog)[-1]

    assert (line["class_uid"], line["status_id"]) == (API_ACTIVITY, FAILURE)
    assert line["api"] == {"operation": "Produce"}
    assert line["actor"] == {"user": {"name": ALICE}}
    assert line["resources"] == [{"type": "TOPIC", "name": "orders"}]
    assert line["status_detail"] == "no right: WRITE"
    assert line["unmapped"] == {"denials_without_a_line": 7}


def test_a_change_says_what_was_there_before_and_after(caplog: pytest.LogCaptureFixture) -> None:
    many = [acl(f"t{number}") for number in range(150)]
    note_acls_changed(
        now_ms=7, principal=ADMIN, peer="h:1", api="DeleteAcls", made=[], deleted=many
    )
    (line,) = lines_of(caplog)
    assert line["activity_id"] == 4
    assert line["unmapped"]["before_count"] == 150
    assert len(line["unmapped"]["before"]) == 100
    assert line["unmapped"]["after"] == []


def test_requests_leave_their_lines(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    with running.connect() as admin, running.connect() as alice:
        running.log_in(admin, ADMIN)
        running.log_in(alice, ALICE)
        make(admin, acl("orders", Operation.WRITE))
        assert fetch(alice, "orders").error_code == 29
        delete(admin, exactly(acl("orders", Operation.WRITE)), filter_of("none"))
    made, denied, deleted = lines_of(caplog)

    text = "ALLOW User:alice WRITE on TOPIC LITERAL 'orders' from *"
    assert made["unmapped"]["after"] == [text]
    assert made["actor"]["user"]["name"] == ADMIN
    assert deleted["unmapped"]["before"] == [text]
    assert (denied["api"]["operation"], denied["resources"][0]["name"]) == ("Fetch", "orders")
    assert running.do(lambda: running.broker.denials.by_api["Fetch"]) == 1


def test_what_a_client_did_not_ask_for_is_no_denial(running: Running) -> None:
    from logstore.wire.messages.metadata import MetadataRequest

    running.create_topic("hidden")
    with running.connect() as alice:
        running.log_in(alice, ALICE)
        assert alice.call(3, MetadataRequest(None, False, True, True), 10).topics == []
    assert running.do(lambda: running.broker.denials.by_api["Metadata"]) == 0
