"""Requests of administrators: metadata, topics, configs, quotas, the cluster."""

from typing import Any

from logstore.wire.messages import (
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_quorum,
    describe_topic_partitions,
    describe_user_scram_credentials,
    elect_leaders,
    incremental_alter_configs,
    list_config_resources,
    list_partition_reassignments,
    list_transactions,
    metadata,
    sasl_authenticate,
    sasl_handshake,
    unregister_broker,
    update_features,
)
from tests.clients.differential.peer import METADATA, STRANGE_ID, Peer, versions

DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_CONFIGS = 18, 19, 20, 32
ALTER_CONFIGS, ALTER_LOG_DIRS, DESCRIBE_LOG_DIRS, CREATE_PARTITIONS = 33, 34, 35, 37
ELECT_LEADERS, INCREMENTAL, REASSIGN, REASSIGNMENTS = 43, 44, 45, 46
DESCRIBE_QUOTAS, ALTER_QUOTAS, SCRAM, QUORUM, CLUSTER = 48, 49, 50, 55, 60
UNREGISTER, TRANSACTIONS, RESOURCES, TOPIC_PARTITIONS = 64, 66, 74, 75
UPDATE_FEATURES = 57
SASL_HANDSHAKE, SASL_AUTHENTICATE, ALTER_SCRAM = 17, 36, 51
TOPIC, BROKER, LOGGER = 2, 4, 8


def prepare(peer: Peer) -> None:
    peer.create("plain", 2)
    peer.create("set", retention_ms="1000000", cleanup_policy="compact,delete")
    peer.create("changed")


def run(peer: Peer) -> None:
    _versions(peer)
    _metadata(peer)
    _creation(peer)
    _growth(peer)
    _deletion(peer)
    _described_configs(peer)
    _altered_configs(peer)
    _quotas(peer)
    _placement(peer)
    _cluster(peer)
    _features(peer)
    _acls(peer)


def _versions(peer: Peer) -> None:
    for version in versions(API_VERSIONS):
        for what, name in (("a client", "client"), ("a strange name", "a client?"), ("none", "")):
            request = api_versions.ApiVersionsRequest(name, "1.0")
            peer.ask(what, API_VERSIONS, version, request)


def _metadata(peer: Peer) -> None:
    for version in versions(METADATA):

        def ask(what: str, names: list[str] | None, version: int = version, **fields: Any) -> None:
            topics = None if names is None else [named(one) for one in names]
            request = metadata.MetadataRequest(topics, False)
            for name, value in fields.items():
                setattr(request, name, value)
            peer.ask(what, METADATA, version, request)

        ask("two topics", ["plain", "set"])
        ask("an unknown topic", ["unknown"])
        ask("a strange name", ["one/two"])
        ask("twice the same", ["plain", "plain"])
        ask("none", [])
        if version >= 8:
            ask("rights", ["plain"], include_topic_authorized_operations=True)
        if 8 <= version <= 10:
            ask("rights on the cluster", [], include_cluster_authorized_operations=True)
        if version >= 12:
            for what, topic_id in (
                ("an id", peer.topic_ids["plain"]),
                ("a strange id", STRANGE_ID),
            ):
                one = metadata.MetadataRequestTopic(topic_id, None)
                peer.ask(what, METADATA, version, metadata.MetadataRequest([one], False))
    for what, limit, names in (
        ("two", 2000, ["plain", "set"]), ("an unknown topic", 2000, ["unknown"]),
        ("a limit", 1, ["plain"]), ("a strange limit", 0, ["plain"]),
    ):  # fmt: skip
        topics = [describe_topic_partitions.TopicRequest(one) for one in names]
        request = describe_topic_partitions.DescribeTopicPartitionsRequest(topics, limit)
        peer.ask(what, TOPIC_PARTITIONS, 0, request)


def named(name: str) -> metadata.MetadataRequestTopic:
    return metadata.MetadataRequestTopic(name=name)


def _creation(peer: Peer) -> None:
    config, assigned = create_topics.CreatableTopicConfig, create_topics.CreatableReplicaAssignment
    topic = create_topics.CreatableTopic
    for version in versions(CREATE_TOPICS):
        cases: dict[str, list[create_topics.CreatableTopic]] = {
            "one": [topic(f"made-{version}", 2, 1)],
            "one that is there": [topic("plain", 1, 1)],
            "a strange name": [topic("one/two", 1, 1)],
            "an empty name": [topic("", 1, 1)],
            "a long name": [topic("x" * 250, 1, 1)],
            "a dot": [topic(".", 1, 1)],
            "no partitions": [topic("wrong-1", 0, 1)],
            "negative partitions": [topic("wrong-2", -2, 1)],
            "too many replicas": [topic("wrong-3", 1, 5)],
            "no replicas": [topic("wrong-4", 1, 0)],
            "a strange config": [topic("wrong-5", 1, 1, configs=[config("strange", "1")])],
            "a wrong value": [topic("wrong-6", 1, 1, configs=[config("retention.ms", "x")])],
            "a null value": [topic("wrong-7", 1, 1, configs=[config("retention.ms", None)])],
            "assigned": [topic(f"assigned-{version}", -1, -1, [assigned(0, [1])])],
            "assigned to a stranger": [topic("wrong-8", -1, -1, [assigned(0, [77])])],
            "assigned and counted": [topic("wrong-9", 2, 1, [assigned(0, [1])])],
            "assigned with a gap": [topic("wrong-10", -1, -1, [assigned(1, [1])])],
            "twice the same": [topic("twice", 1, 1), topic("twice", 1, 1)],
            "alike but for a dot": [topic("pl.ain_x", 1, 1), topic("pl_ain.x", 1, 1)],
        }
        if version >= 4:
            cases["defaults"] = [topic(f"defaults-{version}", -1, -1)]
        for what, topics in cases.items():
            if what.startswith("alike") and version != 7:
                continue
            request = create_topics.CreateTopicsRequest(topics, 30_000)
            peer.ask(what, CREATE_TOPICS, version, request)
        dry = create_topics.CreateTopicsRequest([topic("dry", 3, 1)], 30_000, True)
        peer.ask("only validated", CREATE_TOPICS, version, dry)


def _growth(peer: Peer) -> None:
    topic, assigned = (
        create_partitions.CreatePartitionsTopic,
        create_partitions.CreatePartitionsAssignment,
    )
    for version in versions(CREATE_PARTITIONS):
        for what, one in {
            "more": topic("changed", 2 + version),
            "as many": topic("changed", 2 + version),
            "fewer": topic("changed", 1),
            "none": topic("changed", 0),
            "an unknown topic": topic("unknown", 9),
            "assigned to a stranger": topic("changed", 3 + version, [assigned([77])]),
            "too few assigned": topic("changed", 9 + version, [assigned([1])]),
        }.items():
            request = create_partitions.CreatePartitionsRequest([one], 30_000, False)
            peer.ask(what, CREATE_PARTITIONS, version, request)


def _deletion(peer: Peer) -> None:
    state = delete_topics.DeleteTopicState
    for version in versions(DELETE_TOPICS):
        if version < 6:
            for what, names in {
                "one": [f"made-{version + 1}"], "an unknown topic": ["unknown"],
                "twice the same": ["unknown", "unknown"],
            }.items():  # fmt: skip
                old = delete_topics.DeleteTopicsRequest(names, None, 30_000)
                peer.ask(what, DELETE_TOPICS, version, old)
            continue
        for what, topics in {
            "one": [state("made-7")], "an unknown topic": [state("unknown")],
            "an unknown id": [state(None, STRANGE_ID)],
            "a name and an id": [state("plain", STRANGE_ID)],
            "neither": [state(None)],
        }.items():  # fmt: skip
            new = delete_topics.DeleteTopicsRequest(None, topics, 30_000)
            peer.ask(what, DELETE_TOPICS, version, new)


def _described_configs(peer: Peer) -> None:
    resource = describe_configs.DescribeConfigsResource
    few = ["retention.ms", "cleanup.policy", "max.message.bytes", "min.insync.replicas", "strange"]
    for version in versions(DESCRIBE_CONFIGS):
        for what, kind, name, names in (
            ("some of a topic", TOPIC, "set", few),
            ("all of a topic", TOPIC, "plain", None),
            ("an unknown topic", TOPIC, "unknown", None),
            ("an empty topic", TOPIC, "", None),
            ("a strange name", TOPIC, "one/two", None),
            ("another broker", BROKER, "77", None),
            ("no broker", BROKER, "x", None),
            ("a strange kind", 99, "x", None),
            ("no kind", 0, "x", None),
            ("all brokers", BROKER, "", None),
        ):
            one = resource(kind, name, names)
            request = describe_configs.DescribeConfigsRequest([one], True, False)
            peer.ask(what, DESCRIBE_CONFIGS, version, request)


def _altered_configs(peer: Peer) -> None:
    resource, change = (
        incremental_alter_configs.AlterConfigsResource,
        incremental_alter_configs.AlterableConfig,
    )
    for version in versions(INCREMENTAL):
        for what, kind, name, changes in (
            ("set", TOPIC, "changed", [change("retention.ms", 0, "5000")]),
            ("delete", TOPIC, "changed", [change("retention.ms", 1, None)]),
            ("append", TOPIC, "changed", [change("cleanup.policy", 2, "compact")]),
            ("subtract", TOPIC, "changed", [change("cleanup.policy", 3, "compact")]),
            ("append to no list", TOPIC, "changed", [change("retention.ms", 2, "1")]),
            ("a strange operation", TOPIC, "changed", [change("retention.ms", 9, "1")]),
            ("a wrong value", TOPIC, "changed", [change("retention.ms", 0, "x")]),
            ("a null value", TOPIC, "changed", [change("retention.ms", 0, None)]),
            ("a strange config", TOPIC, "changed", [change("strange", 0, "1")]),
            ("twice the same", TOPIC, "changed", [change("retention.ms", 0, "1")] * 2),
            ("an unknown topic", TOPIC, "unknown", [change("retention.ms", 0, "1")]),
            ("another broker", BROKER, "77", [change("num.partitions", 0, "1")]),
            ("no broker", BROKER, "x", [change("num.partitions", 0, "1")]),
            ("a strange kind", 99, "x", [change("retention.ms", 0, "1")]),
        ):
            one = resource(kind, name, changes)
            for dry in (True, False):
                request = incremental_alter_configs.IncrementalAlterConfigsRequest([one], dry)
                peer.ask(
                    f"{what}{', only validated' if dry else ''}", INCREMENTAL, version, request
                )
        twice = [resource(TOPIC, "changed", [change("retention.ms", 0, "1")])] * 2
        both = incremental_alter_configs.IncrementalAlterConfigsRequest(twice, True)
        peer.ask("one resource twice", INCREMENTAL, version, both)
    old, value = alter_configs.AlterConfigsResource, alter_configs.AlterableConfig
    for version in versions(ALTER_CONFIGS):
        for what, kind, name, values in (
            ("set", TOPIC, "changed", [value("retention.ms", "5000")]),
            ("nothing", TOPIC, "changed", []),
            ("a wrong value", TOPIC, "changed", [value("retention.ms", "x")]),
            ("a null value", TOPIC, "changed", [value("retention.ms", None)]),
            ("a strange config", TOPIC, "changed", [value("strange", "1")]),
            ("an unknown topic", TOPIC, "unknown", [value("retention.ms", "1")]),
            ("a strange kind", 99, "x", [value("retention.ms", "1")]),
        ):
            request2 = alter_configs.AlterConfigsRequest([old(kind, name, values)], False)
            peer.ask(what, ALTER_CONFIGS, version, request2)


def _quotas(peer: Peer) -> None:
    entity, entry, op = (
        alter_client_quotas.EntityData,
        alter_client_quotas.EntryData,
        alter_client_quotas.OpData,
    )
    part = describe_client_quotas.ComponentData
    rate = "producer_byte_rate"
    for version in versions(ALTER_QUOTAS):
        for what, entities, ops in (
            ("a user", [entity("user", "alice")], [op(rate, 1e9)]),
            ("a client", [entity("client-id", "app")], [op(rate, 1e9)]),
            ("the default client", [entity("client-id", None)], [op(rate, 1e9)]),
            ("both", [entity("user", "alice"), entity("client-id", "app")], [op(rate, 1e9)]),
            ("an address", [entity("ip", "10.0.0.7")], [op("connection_creation_rate", 1e5)]),
            ("no address", [entity("ip", "x y")], [op("connection_creation_rate", 1e5)]),
            ("a strange kind", [entity("strange", "x")], [op(rate, 1e9)]),
            ("a strange quota", [entity("user", "alice")], [op("strange", 1.0)]),
            ("a negative rate", [entity("user", "alice")], [op(rate, -1.0)]),
            ("a fraction", [entity("user", "alice")], [op(rate, 0.5)]),
            ("nothing", [], [op(rate, 1e9)]),
            ("twice one kind", [entity("user", "a"), entity("user", "b")], [op(rate, 1e9)]),
            ("an address and a user", [entity("ip", "::1"), entity("user", "b")], [op(rate, 1.0)]),
        ):
            request = alter_client_quotas.AlterClientQuotasRequest([entry(entities, ops)], False)
            peer.ask(what, ALTER_QUOTAS, version, request)
        for what, parts, strict in (
            ("of users", [part("user", 2, None)], False),
            ("of users alone", [part("user", 2, None)], True),
            ("of one", [part("user", 0, "alice"), part("client-id", 0, "app")], True),
            ("of the default", [part("client-id", 1, None)], True),
            ("of a strange kind", [part("strange", 0, "x")], True),
            ("with a strange match", [part("user", 7, "x")], True),
            ("twice one kind", [part("user", 0, "x"), part("user", 0, "y")], True),
        ):
            request2 = describe_client_quotas.DescribeClientQuotasRequest(parts, strict)
            peer.ask(what, DESCRIBE_QUOTAS, version, request2)
        for names in ([("user", "alice")], [("client-id", "app")], [("client-id", None)],
                      [("user", "alice"), ("client-id", "app")], [("ip", "10.0.0.7")]):  # fmt: skip
            rates = [op(one, 0.0, True) for one in (rate, "connection_creation_rate")]
            ops = rates[1:] if names[0][0] == "ip" else rates[:1]
            done = entry([entity(*one) for one in names], ops)
            request = alter_client_quotas.AlterClientQuotasRequest([done], False)
            peer.ask(f"removed of {names}", ALTER_QUOTAS, version, request)


def _placement(peer: Peer) -> None:
    for version in versions(ELECT_LEADERS):
        for what, topic, kind in (
            ("preferred", "plain", 0), ("unclean", "plain", 1), ("an unknown topic", "unknown", 0),
        ):  # fmt: skip
            parts = [elect_leaders.TopicPartitions(topic, [0])]
            request = elect_leaders.ElectLeadersRequest(kind, parts, 30_000)
            peer.ask(what, ELECT_LEADERS, version, request)
    move = alter_partition_reassignments
    for version in versions(REASSIGN):
        for what, topic, number, replicas in (
            ("where it is", "plain", 0, [1]),
            ("to a stranger", "plain", 0, [77]),
            ("to none", "plain", 0, []),
            ("twice the same", "plain", 0, [1, 1]),
            ("none to cancel", "plain", 0, None),
            ("an unknown topic", "unknown", 0, [1]),
            ("an unknown partition", "plain", 9, [1]),
        ):
            part = move.ReassignablePartition(number, replicas)
            topics = [move.ReassignableTopic(topic, [part])]
            request2 = move.AlterPartitionReassignmentsRequest(30_000, True, topics)
            peer.ask(what, REASSIGN, version, request2)
    for what, names in (("all", None), ("one", ["plain"]), ("an unknown topic", ["unknown"])):
        asked = None if names is None else [
            list_partition_reassignments.ListPartitionReassignmentsTopics(one, [0]) for one in names
        ]  # fmt: skip
        request3 = list_partition_reassignments.ListPartitionReassignmentsRequest(30_000, asked)
        peer.ask(what, REASSIGNMENTS, 0, request3)
    for version in versions(ALTER_LOG_DIRS):
        for what, topic in (("one", "plain"), ("an unknown topic", "unknown")):
            moved = [alter_replica_log_dirs.AlterReplicaLogDirTopic(topic, [0])]
            folder = alter_replica_log_dirs.AlterReplicaLogDir("/nowhere", moved)
            request4 = alter_replica_log_dirs.AlterReplicaLogDirsRequest([folder])
            peer.ask(what, ALTER_LOG_DIRS, version, request4)
    for version in versions(DESCRIBE_LOG_DIRS):
        for what, topic in (("one", "empty"), ("an unknown topic", "unknown")):
            listed = [describe_log_dirs.DescribableLogDirTopic(topic, [0])]
            request5 = describe_log_dirs.DescribeLogDirsRequest(listed)
            peer.ask(what, DESCRIBE_LOG_DIRS, version, request5)


def _cluster(peer: Peer) -> None:
    for version in versions(CLUSTER):
        for what, kind in (("brokers", 1), ("controllers", 2), ("a strange kind", 7)):
            request = describe_cluster.DescribeClusterRequest(True, kind, False)
            peer.ask(what, CLUSTER, version, request)
    for version in versions(TRANSACTIONS):
        for what, states in (("all", []), ("a state", ["Ongoing"]), ("a strange state", ["x"])):
            request2 = list_transactions.ListTransactionsRequest(states, [])
            peer.ask(what, TRANSACTIONS, version, request2)
    for version in versions(RESOURCES):
        for what, kinds in (("all", []), ("topics", [2]), ("a strange kind", [99])):
            if version or what == "all":
                request3 = list_config_resources.ListConfigResourcesRequest(kinds)
                peer.ask(what, RESOURCES, version, request3)
    _quorum(peer)


def _features(peer: Peer) -> None:
    upgrade, strange = 1, 7
    for version in versions(UPDATE_FEATURES):
        for what, name, level, kind in (
            ("an unknown one", "unknown", 1, upgrade),
            ("an unknown one to 0", "unknown", 0, upgrade),
            ("below 0", "unknown", -1, upgrade),
            ("an empty name", "", 1, upgrade),
            ("a strange type", "unknown", 1, strange),
            ("transactions of version 2", "transaction.version", 2, upgrade),
        ):
            one = update_features.FeatureUpdateKey(name, level, upgrade_type=kind)
            request = update_features.UpdateFeaturesRequest(5_000, [one], True)
            peer.ask(what, UPDATE_FEATURES, version, request)
        peer.ask("none", UPDATE_FEATURES, version, update_features.UpdateFeaturesRequest(5_000))


def _quorum(peer: Peer) -> None:
    for version in versions(QUORUM):
        for what, topic in (("the log", "__cluster_metadata"), ("another topic", "plain")):
            parts = [describe_quorum.PartitionData(0)]
            topics = [describe_quorum.TopicData(topic, parts)]
            peer.ask(what, QUORUM, version, describe_quorum.DescribeQuorumRequest(topics))
    for what, users in (("all", None), ("one", ["alice"]), ("twice one", ["alice", "alice"])):
        asked = None if users is None else [
            describe_user_scram_credentials.UserName(one) for one in users
        ]  # fmt: skip
        request4 = describe_user_scram_credentials.DescribeUserScramCredentialsRequest(asked)
        peer.ask(what, SCRAM, 0, request4)
    peer.ask("a stranger", UNREGISTER, 0, unregister_broker.UnregisterBrokerRequest(77))
    _logins(peer)


def _logins(peer: Peer) -> None:
    """Of a listener that asks for none; users are changed all the same."""
    for version in versions(SASL_HANDSHAKE):
        handshake = sasl_handshake.SaslHandshakeRequest("SCRAM-SHA-256")
        peer.ask("without a login", SASL_HANDSHAKE, version, handshake)
    for version in versions(SASL_AUTHENTICATE):
        token = sasl_authenticate.SaslAuthenticateRequest(b"n,,n=alice,r=abc")
        peer.ask("without a login", SASL_AUTHENTICATE, version, token)
    delete = alter_user_scram_credentials.ScramCredentialDeletion
    upsert = alter_user_scram_credentials.ScramCredentialUpsertion
    good = upsert("alice", 1, 4096, b"salt", b"salted password")
    changes: dict[str, tuple[list[Any], list[Any]]] = {
        "a user": ([], [good, upsert("bob", 2, 16384, b"salt", b"salted password")]),
        "a stranger": ([delete("stranger", 1)], []),
        "another mechanism of a user": ([delete("alice", 2)], []),
        "strange mechanisms": ([delete("alice", 9)], [upsert("c", 0, 4096, b"s", b"p")]),
        "too few iterations": ([], [upsert("d", 1, 4095, b"s", b"p")]),
        "too many iterations": ([], [upsert("d", 1, 16385, b"s", b"p")]),
        "no name": ([], [upsert("", 1, 4096, b"s", b"p")]),
        "one twice": ([delete("alice", 1)], [good]),
        "a deletion": ([delete("alice", 1), delete("bob", 2)], []),
    }
    for what, (deletions, upsertions) in changes.items():
        request = alter_user_scram_credentials.AlterUserScramCredentialsRequest(
            deletions, upsertions
        )
        peer.ask(what, ALTER_SCRAM, 0, request)


def _acls(peer: Peer) -> None:
    """Of a cluster without an authorizer. A second number of each kind is one that none has."""
    known, strange = (2, 3, 3, 3), 77
    numbers: dict[str, tuple[int, ...]] = {"an ACL": known}
    for at, what in enumerate(("kind", "pattern", "operation", "permission")):
        for word, number in (("an unknown", 0), ("a strange", strange)):
            numbers[f"{word} {what}"] = (*known[:at], number, *known[at + 1 :])
    for version in versions(DESCRIBE_ACLS):
        for what, (kind, pattern, operation, permission) in numbers.items():
            rest = ("User:alice", "*", operation, permission)
            asked = describe_acls.DescribeAclsRequest(kind, "plain", pattern, *rest)
            peer.ask(what, DESCRIBE_ACLS, version, asked)
            made = [create_acls.AclCreation(kind, "plain", pattern, *rest)] * 2
            peer.ask(what, CREATE_ACLS, version, create_acls.CreateAclsRequest(made))
            matched = [delete_acls.DeleteAclsFilter(kind, None, pattern, None, None, *rest[2:])] * 2
            peer.ask(what, DELETE_ACLS, version, delete_acls.DeleteAclsRequest(matched))
        peer.ask("no ACL", CREATE_ACLS, version, create_acls.CreateAclsRequest())
        peer.ask("no filter", DELETE_ACLS, version, delete_acls.DeleteAclsRequest())
        all_of_them = describe_acls.DescribeAclsRequest(1, None, 1, None, None, 1, 1)
        peer.ask("all", DESCRIBE_ACLS, version, all_of_them)
