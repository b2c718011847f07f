"""Rights beside Apache Kafka's StandardAuthorizer: without, denied beside allowed, with them.

No client logs in: the one that is denied comes from another address than the one that makes ACLs.
"""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers.kafka import start_kafka
from benchmarks.peers.server import stop
from logstore.config.authorizer_settings import STANDARD_AUTHORIZER
from logstore.errors import LogstoreError
from logstore.ports.clock import SystemClock
from logstore.security.acls import Acl, Operation, PatternKind, Permission, Resource, ResourceKind
from logstore.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from logstore.wire.messages.find_coordinator import FindCoordinatorRequest
from logstore.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from logstore.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.acl_calls import acls_in, create, delete, describe, exactly, filter_of, make
from tests.broker.rights_table import GROUP, REFUSALS, TABLE, TOPIC, Asked
from tests.broker.test_rights_of_requests import codes_of
from tests.clients.java_users import run_tool, why_no_tools
from tests.scenarios.harness.brokers import bootstrap_of, start_broker
from tools.full_wire import APIS, Connection

pytestmark = pytest.mark.clients

ADMINS_HOST, STRANGERS_HOST = "127.0.0.1", "127.0.0.2"
EVERYONE = "User:ANONYMOUS"
SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
APPLIED_S = 5.0
"""Kafka answers before its broker goes by an ACL."""
CALL_S = 20.0

OTHERWISE_IN_KAFKA = {
    "0-produce-of-a-transaction": "asks where a batch is of a transaction, and this one is not",
    "50-credentials": "a client without the right gets no answer from 4.3.1",
}

PUBLIC = [one for one in TABLE if one.key in APIS]


class Asker:
    """One server: the client that may do everything, and the one that may do nothing."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.bootstrap = bootstrap
        self._place = host, int(port)
        self.admin = self._connect(ADMINS_HOST)
        everything = [
            Acl(kind, name, PatternKind.LITERAL, EVERYONE, ADMINS_HOST, Operation.ALL, ALLOW)
            for kind, name in (
                (ResourceKind.CLUSTER, "kafka-cluster"),
                (ResourceKind.TOPIC, "*"),
                (ResourceKind.GROUP, "*"),
                (ResourceKind.TRANSACTIONAL_ID, "*"),
            )
        ]
        make(self.admin, *everything)

    def _connect(self, source: str) -> Connection:
        peer = socket.create_connection(self._place, CALL_S, source_address=(source, 0))
        return Connection(peer, CALL_S)

    def close(self) -> None:
        self.admin.close()

    def prepare(self) -> bytes:
        """Topic and group are there. Returns the id of the topic."""
        deadline_s = SystemClock().monotonic_s() + CALL_S
        while SystemClock().monotonic_s() < deadline_s:
            asked = MetadataRequest([MetadataRequestTopic(name=TOPIC.name)], False)
            (topic,) = self.admin.call(3, asked, 12).topics
            self.admin.call(10, FindCoordinatorRequest("", 0, [GROUP.name]), 4)
            if not topic.error_code and not self._commit():
                topic_id: bytes = topic.topic_id
                return topic_id
            self.admin.call(19, CreateTopicsRequest([CreatableTopic(TOPIC.name, 1, 1)], 9_000), 7)
        raise AssertionError("no topic")

    def _commit(self) -> int:
        partition = OffsetCommitRequestPartition(0, 5)
        topic = OffsetCommitRequestTopic(TOPIC.name, partitions=[partition])
        response = self.admin.call(8, OffsetCommitRequest(GROUP.name, topics=[topic]), 8)
        code: int = response.topics[0].partitions[0].error_code
        return code

    def outcome(self, asked: Asked, wanted: Any) -> Any:
        """Asked until it is `wanted`, or ACLs must count by now."""
        deadline_s = SystemClock().monotonic_s() + APPLIED_S
        while True:
            request = asked.request(self.prepare())
            with self._connect(STRANGERS_HOST) as stranger:
                try:
                    response = stranger.call(asked.key, request, asked.version)
                except LogstoreError as failure:
                    return str(failure)
            codes = codes_of(response) & REFUSALS
            found = (codes, bool(asked.seen(response)) if asked.seen else None)
            if found == wanted or SystemClock().monotonic_s() > deadline_s:
                return found


ALLOW, DENY = Permission.ALLOW, Permission.DENY


def may(operation: Operation, on: Resource, permission: Permission = ALLOW) -> Acl:
    return Acl(
        on.kind, on.name, PatternKind.LITERAL, EVERYONE, STRANGERS_HOST, operation, permission
    )


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Asker, Asker]]:
    """Apache Kafka's, and ours."""
    if why_no_tools():
        pytest.skip("Apache Kafka's tools need Java 17 and Maven, once")
    folder: Path = tmp_path_factory.mktemp("rights")
    (folder / "theirs").mkdir()
    more = [text for pair in SETTINGS.items() for text in ("--set", "=".join(pair))]
    with start_broker(str(folder / "ours"), more=more) as broker:
        kafka = start_kafka(folder / "theirs", settings=SETTINGS)
        try:
            theirs, ours = Asker(kafka.bootstrap), Asker(bootstrap_of(broker))
            yield theirs, ours
            theirs.close()
            ours.close()
        finally:
            stop(kafka.processes)


def test_every_request_is_refused_as_by_kafka(servers: tuple[Asker, Asker]) -> None:
    wrong = []
    for asked in PUBLIC:
        refused = (set() if asked.refusal is None else {asked.refusal}, asked.seen and False)
        allowed: tuple[set[int], bool | None] = (set(), asked.seen and True)
        for name, server in zip(("Kafka", "ours"), servers, strict=True):
            if name == "Kafka" and str(asked) in OTHERWISE_IN_KAFKA:
                continue
            make(server.admin, *(may(*one) for one in asked.beside))
            found = [server.outcome(asked, refused)]
            make(server.admin, may(asked.needs, asked.on), may(asked.needs, asked.on, DENY))
            found.append(server.outcome(asked, refused))
            delete(server.admin, filter_of(permission=DENY, host=STRANGERS_HOST))
            found.append(server.outcome(asked, allowed))
            delete(server.admin, filter_of(host=STRANGERS_HOST))
            if found != [refused, refused, allowed]:
                wrong.append(f"{name} {asked}: {found}")
    assert not wrong, "\n".join(wrong)


def test_filters_find_and_delete_what_kafkas_do(servers: tuple[Asker, Asker]) -> None:
    some = [
        may(Operation.READ, Resource(ResourceKind.TOPIC, "ab")),
        may(Operation.READ, Resource(ResourceKind.TOPIC, "ab"), DENY),
        may(Operation.ALL, Resource(ResourceKind.GROUP, "ab")),
        may(Operation.READ, Resource(ResourceKind.TOPIC, "a"))._replace(
            pattern=PatternKind.PREFIXED
        ),
    ]
    asked = [
        filter_of("ab", host=STRANGERS_HOST),
        filter_of("abc", pattern=2, host=STRANGERS_HOST),
        filter_of("ab", pattern=2, kind=2),
        filter_of(pattern=4),
        filter_of(operation=3, host=STRANGERS_HOST),
        filter_of(permission=2),
        filter_of(principal="User:absent"),
    ]
    answers = []
    for server in servers:
        make(server.admin, *some)
        found = [describe(server.admin, one) for one in asked]
        gone = [acls_in(one) for one in delete(server.admin, exactly(some[0]), asked[1])]
        gone.append(acls_in(delete(server.admin, filter_of(host=STRANGERS_HOST))[0]))
        answers.append((found, gone))
    assert answers[0] == answers[1]


def test_acls_that_make_no_sense_are_refused_alike(servers: tuple[Asker, Asker]) -> None:
    base = may(Operation.READ, Resource(ResourceKind.TOPIC, "ab"))
    # Numbers of filters alone, such as ANY, are INVALID_REQUEST here and fail all of it in Kafka.
    wrong = [
        base._replace(name=""),
        base._replace(kind=ResourceKind.CLUSTER),
        base._replace(host="no address"),
    ]
    codes = [[one.error_code for one in create(server.admin, *wrong)] for server in servers]
    for server in servers:
        delete(server.admin, filter_of(host=STRANGERS_HOST))
    assert codes == [[42, 42, 0], [42, 42, 42]], "a host that no client has is stored by Kafka"


def test_kafka_acls_adds_lists_and_removes(servers: tuple[Asker, Asker]) -> None:
    ours = servers[1]

    def acls(*arguments: str) -> str:
        return run_tool("AclCommand", "--bootstrap-server", ours.bootstrap, *arguments)

    acls("--add", "--allow-principal", "User:tool", "--consumer", "--topic", "t", "--group", "g")
    tools = filter_of(principal="User:tool")
    assert len(describe(ours.admin, tools)) == 3
    listed = acls("--list", "--topic", "t", "--resource-pattern-type", "match")
    assert "principal=User:tool, host=*, operation=READ, permissionType=ALLOW" in listed
    acls(
        "--remove",
        "--allow-principal",
        "User:tool",
        "--consumer",
        "--topic",
        "t",
        "--group",
        "g",
        "--force",
    )
    assert describe(ours.admin, tools) == set()
