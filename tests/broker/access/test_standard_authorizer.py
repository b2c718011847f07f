"""The authorizer of brokers: ACLs as they were read, super users, brokers; decisions are kept."""

from broker.access.authorizer_choice import authorizer_of
from broker.access.standard_authorizer import KEPT_MAX, KEPT_NAME_MAX, StandardAuthorizer
from broker.network.authorizer import CLUSTER, AllowAll, Operation, Resource, ResourceKind
from logstore.config.authorizer_settings import STANDARD_AUTHORIZER
from logstore.config.broker import BrokerSettings
from logstore.epoch.shared_rows import SharedRows
from logstore.protocol.rows.acls import AclShard, AclShards
from logstore.protocol.rows.view import RegistryUpdate
from logstore.security.acl_index import group, shard_of
from logstore.security.acls import Acl, PatternKind, Permission

ALICE, HERE = "User:alice", "10.0.0.1"
ORDERS = Resource(ResourceKind.TOPIC, "orders")


def allowing(operation: Operation = Operation.READ, principal: str = ALICE) -> Acl:
    return Acl(
        ResourceKind.TOPIC,
        "orders",
        PatternKind.LITERAL,
        principal,
        "*",
        operation,
        Permission.ALLOW,
    )


def shards(version: int, *acls: Acl, all_of: tuple[Acl, ...] = ()) -> AclShards:
    """The rows of these ACLs; those of `all_of` are there, and may be empty."""
    return {
        shard: AclShard(version, group([one for one in acls if shard_of(one) == shard]))
        for shard in {shard_of(one) for one in (*acls, *all_of)}
    }


def may(
    authorizer: StandardAuthorizer,
    operation: Operation = Operation.READ,
    resource: Resource = ORDERS,
    principal: str = ALICE,
    groups: tuple[str, ...] = (),
) -> bool:
    return authorizer.authorize(principal, HERE, operation, resource, groups)


def test_a_decision_counts_until_the_acls_change() -> None:
    authorizer = StandardAuthorizer()
    assert not may(authorizer)
    authorizer.follow(shards(1, allowing()))
    version = authorizer.version
    assert may(authorizer)
    assert may(authorizer), "as it was kept"
    authorizer.follow(shards(2, all_of=(allowing(),)))
    assert not may(authorizer)
    assert authorizer.version == version + 1


def test_rows_that_are_known_change_no_version() -> None:
    authorizer = StandardAuthorizer()
    known = shards(1, allowing())
    authorizer.follow(known)
    version = authorizer.version
    authorizer.follow(dict(known))
    assert authorizer.version == version


def test_decisions_are_kept_by_client_and_not_by_name_alone() -> None:
    authorizer = StandardAuthorizer()
    authorizer.follow(shards(1, allowing(principal="Group:ops")))
    assert not may(authorizer)
    assert may(authorizer, groups=("Group:ops",))
    assert not may(authorizer)
    assert not may(authorizer, Operation.WRITE, groups=("Group:ops",))
    assert not may(
        authorizer, resource=Resource(ResourceKind.GROUP, "orders"), groups=("Group:ops",)
    )


def test_a_super_user_may_do_everything_whatever_acls_say() -> None:
    deny = Acl(
        ResourceKind.TOPIC, "*", PatternKind.LITERAL, "User:*", "*", Operation.ALL, Permission.DENY
    )
    authorizer = StandardAuthorizer(frozenset({"User:admin", "Group:ops"}))
    authorizer.follow(shards(1, deny))
    assert may(authorizer, principal="User:admin")
    assert may(authorizer, groups=("Group:ops",))
    assert may(authorizer, Operation.ALTER_CONFIGS, CLUSTER, "User:admin")
    assert authorizer.authorize_on_any("User:admin", HERE, Operation.WRITE, ResourceKind.TOPIC)
    assert not may(authorizer)


def test_a_broker_may_act_as_one_and_do_nothing_else() -> None:
    everything = allowing(Operation.ALL, "User:*")
    authorizer = StandardAuthorizer()
    authorizer.follow(shards(1, everything))
    assert may(authorizer, Operation.CLUSTER_ACTION, CLUSTER, "Broker:7")
    assert not may(authorizer, Operation.ALTER, CLUSTER, "Broker:7")
    assert not may(authorizer, principal="Broker:7")
    assert not authorizer.authorize_on_any("Broker:7", HERE, Operation.WRITE, ResourceKind.TOPIC)


def test_a_client_that_names_many_resources_takes_bounded_memory() -> None:
    authorizer = StandardAuthorizer()
    for number in range(KEPT_MAX + 10):
        may(authorizer, resource=Resource(ResourceKind.GROUP, f"group-{number}"))
    assert sum(map(len, authorizer._kept.values())) <= KEPT_MAX
    kept = sum(map(len, authorizer._kept.values()))
    may(authorizer, resource=Resource(ResourceKind.GROUP, "x" * (KEPT_NAME_MAX + 1)))
    assert sum(map(len, authorizer._kept.values())) == kept


def test_settings_choose_the_authorizer() -> None:
    rows = SharedRows()
    assert isinstance(authorizer_of(BrokerSettings(), rows), AllowAll)
    chosen = authorizer_of(
        BrokerSettings(
            {
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": "User:admin",
                "allow.everyone.if.no.acl.found": "true",
            }
        ),
        rows,
    )
    assert isinstance(chosen, StandardAuthorizer)
    assert may(chosen), "no ACL says anything about it"
    rows.take(RegistryUpdate(1, {}, {}, acls=shards(1, allowing(principal="User:bob"))))
    assert not may(chosen)
    assert may(chosen, principal="User:admin")
