"""What administrators do with kafka-python, a process per story.

    python -m tests.clients.admin_stories STORY --bootstrap HOST:PORT

Ends with the line `done`, or with what went wrong. The cluster has brokers 1 and 2.
"""

import argparse
import sys
from collections.abc import Callable
from typing import Any

import kafka
import kafka.admin
import kafka.errors

from tests.clients.two_brokers import known_everywhere, until

DEADLINE_S = 60.0
_LITERAL = kafka.admin.ACLResourcePatternType.LITERAL


def cluster(bootstrap: str) -> None:
    admin = _admin(bootstrap)
    until(lambda: len(admin.describe_cluster()["brokers"]) == 2)
    reported = admin.describe_cluster()
    assert reported["controller_id"] in (1, 2), reported
    admin.close()


def topics(bootstrap: str) -> None:
    admin = _admin(bootstrap)
    assigned = {0: [1, 2], 1: [2, 1]}
    admin.create_topics([kafka.admin.NewTopic("kp-grows", -1, -1, assigned)])
    known_everywhere(bootstrap, "kp-grows", 2)
    admin.create_partitions({"kp-grows": 3})
    known_everywhere(bootstrap, "kp-grows", 3)
    admin.create_partitions({"kp-grows": {"count": 4, "assignments": [[2, 1]]}})
    known_everywhere(bootstrap, "kp-grows", 4)
    _raises(kafka.errors.InvalidPartitionsError, lambda: admin.create_partitions({"kp-grows": 2}))

    def partitions() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = admin.describe_topic_partitions(["kp-grows"])["topics"]
        return list(found[0]["partitions"])

    def cursor() -> Any:
        page = admin.describe_topic_partitions(["kp-grows"], response_partition_limit=3)
        return page["next_cursor"]

    until(lambda: len(partitions()) == 4 and partitions()[3]["leader_id"] == 2)
    until(lambda: cursor() == {"topic_name": "kp-grows", "partition_index": 3})
    admin.close()


def configs(bootstrap: str) -> None:
    admin = _admin(bootstrap)
    admin.create_topics([kafka.admin.NewTopic("kp-configs", 1, 2)])

    def topic(**given: Any) -> kafka.admin.ConfigResource:
        named = {key.replace("_", "."): value for key, value in given.items()}
        return kafka.admin.ConfigResource("TOPIC", "kp-configs", named or None)

    def described() -> dict[str, Any]:
        reported = admin.describe_configs([topic()], config_filter="all", include_synonyms=True)
        found: dict[str, Any] = next(iter(next(iter(reported.values())).values()))
        return found

    known_everywhere(bootstrap, "kp-configs")
    admin.alter_configs([topic(retention_ms="9", cleanup_policy=("APPEND", "compact"))])
    until(lambda: described()["retention.ms"]["value"] == "9")
    until(lambda: described()["cleanup.policy"]["value"] == "delete,compact")
    admin.alter_configs([topic(retention_ms=("DELETE", None))])
    until(lambda: described()["retention.ms"]["value"] == "604800000")
    for broker in ("1", "2"):
        asked = kafka.admin.ConfigResource("BROKER", broker)
        reported = admin.describe_configs([asked], config_filter="all")
        assert "num.partitions" in str(reported), reported
    admin.close()


def replicas(bootstrap: str) -> None:
    admin, partition = _admin(bootstrap), kafka.TopicPartition("kp-moves", 0)
    admin.create_topics([kafka.admin.NewTopic("kp-moves", -1, -1, {0: [1, 2]})])
    known_everywhere(bootstrap, "kp-moves")
    wrong = admin.alter_partition_reassignments({partition: [7]})[partition]
    assert wrong is kafka.errors.InvalidReplicationAssignmentError, wrong
    none = admin.alter_partition_reassignments({partition: None})[partition]
    assert none is kafka.errors.NoReassignmentInProgressError, none
    assert admin.alter_partition_reassignments({partition: [2]}) == {partition: None}

    def described() -> dict[str, Any]:
        (found,) = admin.describe_topics(["kp-moves"])
        one: dict[str, Any] = found["partitions"][0]
        return one

    until(lambda: described()["leader_id"] == 2)
    until(lambda: admin.list_partition_reassignments() == {})
    assert admin.alter_partition_reassignments({partition: [1, 2]}) == {partition: None}
    until(lambda: described()["replica_nodes"] == [1, 2])
    admin.elect_leaders(0, {"kp-moves": [0]})
    until(lambda: described()["leader_id"] == 1)
    admin.close()


def records(bootstrap: str) -> None:
    admin = _admin(bootstrap)
    admin.create_topics([kafka.admin.NewTopic("kp-records", -1, -1, {0: [1], 1: [2]})])
    known_everywhere(bootstrap, "kp-records", 2)
    partitions = [kafka.TopicPartition("kp-records", n) for n in range(2)]
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap)
    for partition in partitions:
        for _ in range(5):
            producer.send(partition.topic, b"x", partition=partition.partition).get(DEADLINE_S)
    producer.close()
    reported = admin.delete_records({partitions[0]: 2, partitions[1]: -1})
    assert [reported[one]["low_watermark"] for one in partitions] == [2, 5], reported
    admin.close()


def acls(bootstrap: str) -> None:
    admin, rights = _admin(bootstrap), kafka.admin
    on = (rights.ResourceType.TOPIC, "kp-rights")
    rule = ("User:alice", "*", rights.ACLOperation.READ, rights.ACLPermissionType.ALLOW)
    asked = rights.ACLFilter(*rule, rights.ResourcePatternFilter(*on, _LITERAL))
    _raises(kafka.errors.SecurityDisabledError, lambda: admin.describe_acls(asked))
    made = admin.create_acls([rights.ACL(*rule, rights.ResourcePattern(*on))])
    assert made == {"succeeded": [], "failed": [kafka.errors.SecurityDisabledError]}, made
    (deleted,) = admin.delete_acls([asked])
    assert deleted[1:] == ([], kafka.errors.SecurityDisabledError), deleted
    admin.close()


STORIES = {one.__name__: one for one in (cluster, topics, configs, replicas, records, acls)}


def _admin(bootstrap: str) -> Any:
    return kafka.KafkaAdminClient(bootstrap_servers=bootstrap)


def _raises(kind: type[Exception], call: Callable[[], object]) -> None:
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("story", choices=STORIES)
    parser.add_argument("--bootstrap", required=True)
    options = parser.parse_args()
    STORIES[options.story](options.bootstrap)
    sys.stdout.write("done\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
