"""Real clients log in over TLS at two brokers, which reach each other in the same way.

ACLs say what each may do; what is changed at one broker counts at the other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
)
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic

from logstore.cli.command import OK
from logstore.cli.main import main
from tests.certificates import Authority
from tests.clients.java_users import run_tool, why_no_tools
from tests.scenarios.harness.process import Process, poll_until

pytestmark = pytest.mark.clients

DEADLINE_S = 60.0
TOPIC, COUNT = "orders", 20
PASSWORDS = {"admin": "admin secret", "alice": "secret of alice"}
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TOOL = "kafka.admin.ConfigCommand"
JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@dataclass(frozen=True)
class Secured:
    bootstrap: str
    authority: Path
    folder: Path

    def properties(self, user: str, password: str | None = None) -> Path:
        """A file as Kafka's tools take it."""
        path = self.folder / f"{user}.properties"
        word = PASSWORDS[user] if password is None else password
        jaas = f'{JAAS} username="{user}" password="{word}";'
        lines = [
            "security.protocol=SASL_SSL",
            "sasl.mechanism=SCRAM-SHA-512",
            f"sasl.jaas.config={jaas}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={self.authority}",
        ]
        path.write_text("\n".join(lines) + "\n")
        return path

    def librdkafka(self, user: str, password: str | None = None) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": PASSWORDS[user] if password is None else password,
            "ssl.ca.location": str(self.authority),
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority()
    trusted = authority.write(folder / "ca.pem")
    pair = authority.pair().write(folder / "pair.pem")
    url = str(folder / "log")
    password = folder / "password"
    password.write_text(PASSWORDS["admin"])
    first = ["init", "--url", url, "--admin", "admin", "--password-file", str(password)]
    assert main(first) == OK
    settings = {
        "ssl.keystore.location": str(pair),
        "ssl.keystore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        "ssl.truststore.type": "PEM",
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:admin",
    }
    places = []
    sets = [part for name, text in settings.items() for part in ("--set", f"{name}={text}")]
    with Process(_serve(url, 1, sets)) as one, Process(_serve(url, 2, sets)) as two:
        for process in (one, two):
            places.append(process.wait_for(r"listening on (\S+)", deadline_s=DEADLINE_S)[1])
        yield Secured(",".join(places), trusted, folder)


def _serve(url: str, number: int, sets: list[str]) -> list[str]:
    listen = ("--listen", "SASL_SSL://127.0.0.1:0")
    return ["broker", "--url", url, "--broker", str(number), *listen, *sets]


@pytest.fixture(scope="module")
def admin(secured: Secured) -> AdminClient:
    """Of an administrator who has made the topic, the user alice, and what she may do.

    She is made by Kafka's own tool where it runs.
    """
    client = AdminClient(secured.librdkafka("admin"))
    if why_no_tools():
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        word = PASSWORDS["alice"].encode()
        wanted = UserScramCredentialUpsertion("alice", scram, word)
        client.alter_user_scram_credentials([wanted])["alice"].result(DEADLINE_S)
    else:
        text = f"SCRAM-SHA-512=[iterations=4096,password={PASSWORDS['alice']}]"
        reached = ("--bootstrap-server", secured.bootstrap, "--command-config")
        user = ("--entity-type", "users", "--entity-name", "alice")
        config = str(secured.properties("admin"))
        run_tool(TOOL, *reached, config, "--alter", *user, "--add-config", text)
        assert "SCRAM-SHA-512" in run_tool(TOOL, *reached, config, "--describe", *user)
    client.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(DEADLINE_S)
    for made in client.create_acls([_may(AclOperation.ALL)]).values():
        made.result(DEADLINE_S)
    return client


def _may(operation: AclOperation) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        TOPIC,
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )


def _filter() -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.TOPIC,
        TOPIC,
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


def test_librdkafka_writes_and_reads_as_its_user(secured: Secured, admin: AdminClient) -> None:
    producer = confluent_kafka.Producer(secured.librdkafka("alice"))
    errors: list[object] = []
    for number in range(COUNT):
        value = b"%d" % number
        producer.produce(
            TOPIC, value, partition=number % 2, on_delivery=lambda e, _: errors.append(e)
        )
    assert producer.flush(DEADLINE_S) == 0
    assert errors == [None] * COUNT


def test_kafka_python_and_aiokafka_log_in(secured: Secured, admin: AdminClient) -> None:
    user = ("alice", PASSWORDS["alice"], TOPIC)
    story = ("tests.clients.login_stories", secured.bootstrap, str(secured.authority), *user)
    with Process(story) as child:
        child.wait_for("^done$", deadline_s=DEADLINE_S)


def test_a_wrong_password_is_an_error_of_authentication(
    secured: Secured, admin: AdminClient
) -> None:
    errors: list[confluent_kafka.KafkaError] = []
    config = {**secured.librdkafka("alice", "wrong"), "error_cb": errors.append, "log_level": 0}
    client = AdminClient(config)
    with pytest.raises(confluent_kafka.KafkaException):
        client.list_topics(timeout=5)
    client.poll(1)
    assert confluent_kafka.KafkaError._AUTHENTICATION in {one.code() for one in errors}


def test_a_right_that_was_taken_away_ends_at_both_brokers(
    secured: Secured, admin: AdminClient
) -> None:
    for place in secured.bootstrap.split(","):
        config = {**secured.librdkafka("alice"), "bootstrap.servers": place}
        assert TOPIC in AdminClient(config).list_topics(timeout=DEADLINE_S).topics
    for gone in admin.delete_acls([_filter()]).values():
        gone.result(DEADLINE_S)

    def is_hidden() -> bool:
        return all(
            TOPIC
            not in AdminClient({**secured.librdkafka("alice"), "bootstrap.servers": place})
            .list_topics(timeout=DEADLINE_S)
            .topics
            for place in secured.bootstrap.split(",")
        )

    poll_until(is_hidden, deadline_s=DEADLINE_S)
