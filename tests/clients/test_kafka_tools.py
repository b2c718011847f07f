"""Apache Kafka's command line tools, unchanged, against brokers of ours: `BROKERS` of them."""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.answers.decisions.feature_updates import FORMAT_LEVEL
from logstore.formats.levels import NEWEST_LEVEL, OLDEST_LEVEL
from tests.clients.java_users import run_tool, why_no_tools
from tests.scenarios.harness.fleet import directory_place, fleet

pytestmark = pytest.mark.clients

BROKERS = int(os.environ.get("BROKERS", "3"))
SOONER = ("--set", "group.initial.rebalance.delay.ms=200")
GROUPS = "consumer.group.ConsumerGroupCommand"
RECORDS = 400


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The option that every tool takes, and the address."""
    if why_no_tools():
        pytest.skip("Apache Kafka's tools need Java 17 and Maven, once")
    place = directory_place(tmp_path_factory.mktemp("tools"))
    with fleet(place, BROKERS, random.Random(), swallowed=False, more=SOONER) as brokers:
        yield "--bootstrap-server", brokers.bootstrap


def test_kafka_topics_and_kafka_configs(server: tuple[str, str]) -> None:
    def topics(*arguments: str, code: int = 0) -> str:
        return run_tool("TopicCommand", *server, *arguments, code=code)

    def configs(*arguments: str) -> str:
        which = ("--entity-type", "topics", "--entity-name", "flights")
        return run_tool("kafka.admin.ConfigCommand", *server, *which, *arguments)

    made = ("--partitions", "4", "--replication-factor", str(BROKERS))
    topics("--create", "--topic", "flights", *made, "--config", "retention.ms=1000000")
    assert "TopicExistsException" in topics("--create", "--topic", "flights", code=1)
    topics("--alter", "--topic", "flights", "--partitions", "6")
    configs("--alter", "--add-config", "retention.ms=2000000,max.message.bytes=500000")
    configs("--alter", "--delete-config", "max.message.bytes")
    shown = configs("--describe")
    assert "retention.ms=2000000" in shown
    assert "max.message.bytes" not in shown
    described = topics("--describe", "--topic", "flights")
    assert "PartitionCount: 6" in described
    assert f"ReplicationFactor: {BROKERS}" in described
    assert described.count("Leader: ") == 6
    topics("--delete", "--topic", "flights")
    assert "flights" not in topics("--list").split()


def test_kafka_configs_of_brokers_and_their_loggers(server: tuple[str, str]) -> None:
    def configs(*arguments: str, kind: str = "brokers", code: int = 0) -> str:
        which = (*server, "--entity-type", kind)
        return run_tool("kafka.admin.ConfigCommand", *which, *arguments, code=code)

    one, logger = ("--entity-name", "1"), "broker.answers.broker"
    configs("--alter", *one, "--add-config", "max.connections.per.ip=1000")
    configs("--alter", "--entity-default", "--add-config", "max.connections.per.ip=2000")
    shown = configs("--describe", *one)
    assert "max.connections.per.ip=1000" in shown
    assert "DYNAMIC_BROKER_CONFIG:max.connections.per.ip=1000" in shown
    assert "DYNAMIC_DEFAULT_BROKER_CONFIG:max.connections.per.ip=2000" in shown
    assert "max.connections.per.ip=2000" in configs("--describe", "--entity-default")
    configs("--alter", *one, "--delete-config", "max.connections.per.ip")
    configs("--alter", *one, "--add-config", "log.cleanup.policy=compact", code=1)
    configs("--alter", *one, "--add-config", f"{logger}=ERROR", kind="broker-loggers")
    assert f"{logger}=ERROR" in configs("--describe", *one, kind="broker-loggers")


def test_kafka_features_and_kafka_broker_api_versions(server: tuple[str, str]) -> None:
    def features(*arguments: str, code: int = 0) -> str:
        return run_tool("FeatureCommand", *server, *arguments, code=code)

    (line,) = features("describe").splitlines()
    assert line.split() == [
        *("Feature:", FORMAT_LEVEL, "SupportedMinVersion:", str(OLDEST_LEVEL)),
        *("SupportedMaxVersion:", str(NEWEST_LEVEL), "FinalizedVersionLevel:", str(NEWEST_LEVEL)),
        *("Epoch:", str(NEWEST_LEVEL)),
    ]
    same = f"{FORMAT_LEVEL}={NEWEST_LEVEL}"
    assert f"{FORMAT_LEVEL} was upgraded to {NEWEST_LEVEL}." in features(
        "upgrade", "--feature", same
    )
    features("upgrade", "--dry-run", "--feature", same)
    features("downgrade", "--unsafe", "--feature", f"{FORMAT_LEVEL}=1", code=1)
    features("upgrade", "--feature", "transaction.version=2", code=1)
    listed = run_tool("BrokerApiVersionsCommand", *server)
    assert "UpdateFeatures(57): 0 to 2 [usable: 2]" in listed


def test_tools_show_that_there_are_no_transactions_and_no_users(server: tuple[str, str]) -> None:
    listed = run_tool("TransactionsCommand", *server, "list")
    assert [line.split()[0] for line in listed.splitlines()] == ["TransactionalId"]
    users = ("--entity-type", "users", "--describe")
    assert run_tool("kafka.admin.ConfigCommand", *server, *users) == ""


def test_kafka_acls_finds_that_there_is_no_security(server: tuple[str, str]) -> None:
    on, alice = ("--topic", "flights"), ("--allow-principal", "User:alice", "--operation", "Read")
    for arguments in (("--list",), ("--add", *on, *alice), ("--remove", *on, *alice, "--force")):
        said = run_tool("AclCommand", *server, *arguments, code=1)
        assert "SecurityDisabledException: there are no ACLs" in said


def test_kafka_verifiable_clients_and_kafka_consumer_groups(server: tuple[str, str]) -> None:
    def groups(*arguments: str) -> list[list[str]]:
        """The lines of its table, in words."""
        messages = run_tool(GROUPS, *server, *arguments).splitlines()
        return [line.split() for line in messages if line.split()]

    name = ("--topic", "verified")
    run_tool("TopicCommand", *server, "--create", *name, "--partitions", "4")
    sent = run_tool("VerifiableProducer", *server, *name, "--max-messages", str(RECORDS))
    assert {e["name"] for e in events(sent)} >= {"producer_send_success", "tool_data"}
    consumer = (*name, "--group-id", "verifiers", "--max-messages", str(RECORDS))
    read = events(run_tool("VerifiableConsumer", *server, *consumer, "--reset-policy", "earliest"))
    assert sum(e["count"] for e in read if e["name"] == "records_consumed") == RECORDS
    assert all(e["success"] for e in read if e["name"] == "offsets_committed")

    mine = ("--group", "verifiers")
    assert ["verifiers"] in groups("--list")
    described = [line for line in groups("--describe", *mine) if line[0] == "verifiers"]
    assert sum(int(line[3]) for line in described) == RECORDS
    assert {line[5] for line in described} == {"0"}
    (state,) = [line for line in groups("--describe", *mine, "--state") if line[0] == "verifiers"]
    assert state[-2:] == ["Empty", "0"]
    reset = groups(*mine, *name, "--reset-offsets", "--to-earliest", "--execute")
    assert sorted(line[2:] for line in reset[1:]) == [[str(n), "0"] for n in range(4)]
    dry = groups(*mine, "--topic", "verified", "--reset-offsets", "--to-latest", "--dry-run")
    assert sum(int(line[3]) for line in dry[1:]) == RECORDS
    deleted = groups("--delete-offsets", *mine, *name)
    assert [line[2] for line in deleted if line[0] == "verified"] == ["Successful"] * 4
    assert "successful" in groups("--delete", *mine)[-1][-1]
    assert ["verifiers"] not in groups("--list")


def test_kafka_console_clients(server: tuple[str, str]) -> None:
    name = ("--topic", "typed")
    run_tool("TopicCommand", *server, "--create", *name, "--partitions", "1")
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    run_tool("ConsoleProducer", *server, *name, *keyed, said="a:1\nb:2\n")
    how = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "60000")
    shown = ("--group", "typists", "--formatter-property", "print.key=true")
    assert run_tool("consumer.ConsoleConsumer", *server, *name, *how, *shown) == "a\t1\nb\t2\n"
    run_tool("ConsoleProducer", *server, *name, said="3\n")
    more = ("--group", "typists", "--max-messages", "1", "--timeout-ms", "60000")
    assert run_tool("consumer.ConsoleConsumer", *server, *name, *more) == "3\n"


def test_kafka_offsets_kafka_delete_records_and_kafka_groups(
    server: tuple[str, str], tmp_path: Path
) -> None:
    name = ("--topic", "trimmed")
    run_tool("TopicCommand", *server, "--create", *name, "--partitions", "1")
    run_tool("ConsoleProducer", *server, *name, said="1\n2\n3\n")
    below = tmp_path / "below.json"
    wanted = [{"topic": "trimmed", "partition": 0, "offset": 2}]
    below.write_text(json.dumps({"version": 1, "partitions": wanted}))
    deleted = run_tool("DeleteRecordsCommand", *server, "--offset-json-file", str(below))
    assert "low_watermark: 2" in deleted
    assert run_tool("GetOffsetShell", *server, *name, "--time", "earliest") == "trimmed:0:2\n"
    listed = run_tool("GroupsCommand", *server, "--list")
    assert listed.split()[:3] == ["GROUP", "TYPE", "PROTOCOL"]


def events(messages: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in messages.splitlines() if line.startswith("{")]
