"""Tiny Produce requests with and without ACLs, and decisions themselves: microseconds.

Both brokers are ours. The one with ACLs has 10,000 of them, by which the client that sends may
write: each request is judged by its principal, address and topic.
"""

import timeit
from functools import partial

from benchmarks.cases import tiny_requests
from benchmarks.contenders import Contenders, on_servers
from benchmarks.options import Options
from benchmarks.peers.logstore_broker import start_logstore
from benchmarks.peers.server import Server
from broker.access.standard_authorizer import StandardAuthorizer
from logstore.config.authorizer_settings import STANDARD_AUTHORIZER
from logstore.protocol.rows.acls import AclShard
from logstore.security.acl_index import group, shard_of
from logstore.security.acls import (
    CLUSTER,
    Acl,
    Operation,
    PatternKind,
    Permission,
    Resource,
    ResourceKind,
)
from logstore.wire.framing.client import Connection
from logstore.wire.messages.create_acls import AclCreation, CreateAclsRequest

ACLS = 10_000
SETTINGS = (
    f"authorizer.class.name={STANDARD_AUTHORIZER}",
    "allow.everyone.if.no.acl.found=true",  # until the first ones are there
)
LOOKS = 100_000


def contenders(options: Options) -> Contenders:
    return {
        **on_servers({"without": start_logstore}, tiny_requests.run, options),
        **on_servers({"ACLs": partial(start_logstore, settings=SETTINGS)}, _with_acls, options),
    }


def _with_acls(server: Server, options: Options) -> dict[str, float]:
    host, _, port = server.bootstrap.rpartition(":")
    acls = some_acls(ACLS)
    with Connection.open(host, int(port), 60.0) as client:
        for begin in range(0, len(acls), 1_000):
            made = [
                AclCreation(
                    a.kind, a.name, a.pattern, a.principal, a.host, a.operation, a.permission
                )
                for a in acls[begin : begin + 1_000]
            ]
            results = client.call(30, CreateAclsRequest(made)).results
            assert not any(one.error_code for one in results), results[0].error_message
    return {**tiny_requests.run(server, options), **_decisions(acls)}


def some_acls(count: int) -> list[Acl]:
    """`User:ANONYMOUS` may do everything from here; the others are of 100 users."""
    own = [
        Acl(kind, name, PatternKind.LITERAL, "User:ANONYMOUS", "127.0.0.1", Operation.ALL, ALLOW)
        for kind, name in (CLUSTER, (ResourceKind.TOPIC, "*"), (ResourceKind.GROUP, "*"))
    ]
    return own + [
        Acl(
            ResourceKind.TOPIC,
            f"topic-{number}",
            PatternKind.PREFIXED if number % 3 else PatternKind.LITERAL,
            f"User:u{number % 100}",
            "*",
            Operation.READ,
            ALLOW,
        )
        for number in range(count - len(own))
    ]


ALLOW = Permission.ALLOW


def _decisions(acls: list[Acl]) -> dict[str, float]:
    authorizer = StandardAuthorizer()
    shards: dict[str, list[Acl]] = {}
    for one in acls:
        shards.setdefault(shard_of(one), []).append(one)
    authorizer.follow({name: AclShard(1, group(some)) for name, some in shards.items()})
    topic = Resource(ResourceKind.TOPIC, "topic-7")
    asked = "User:u7", "10.0.0.1", Operation.READ, topic
    kept_s = timeit.timeit(lambda: authorizer.authorize(*asked), number=LOOKS) / LOOKS

    def decide() -> None:
        authorizer.forget()
        authorizer.authorize(*asked)

    new_s = timeit.timeit(decide, number=LOOKS) / LOOKS
    return {"us of a kept decision": kept_s * 1e6, "us of a new one": new_s * 1e6}
