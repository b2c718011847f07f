"""`logstore acls`: list, add and remove what clients may do."""

import argparse
from collections.abc import Callable

from logstore.cli.command import OK, Command, add_broker_options
from logstore.cli.output import print_json, print_table
from logstore.errors import Invalid
from logstore.security.acl_filter import AclFilter
from logstore.security.acls import (
    CLUSTER,
    WILDCARD,
    Acl,
    Operation,
    PatternKind,
    Permission,
    ResourceKind,
)

AT_ONCE_MAX = 1_000
"""ACLs of one request."""


def configure(parser: argparse.ArgumentParser) -> None:
    add_broker_options(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = _action(actions, "list", _list, "the ACLs there are, or some of them")
    _add_resource(listing)
    _add_who(listing)
    add = _action(actions, "add", _add, "let principals do something, or deny it")
    _add_resource(add)
    who = add.add_mutually_exclusive_group(required=True)
    who.add_argument("--allow", metavar="PRINCIPAL", action="append", help="User:NAME, User:*")
    who.add_argument("--deny", metavar="PRINCIPAL", action="append", help="prevails over --allow")
    add.add_argument("--host", default=WILDCARD, metavar="ADDRESS", help="from there alone")
    add.add_argument(
        "--operation", required=True, action="append", type=_operation, help="READ, WRITE, … ALL"
    )
    remove = _action(actions, "remove", _remove, "remove the ACLs that match; at least one option")
    _add_resource(remove)
    _add_who(remove)


def _action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    run_action: Callable[[argparse.Namespace], None],
    summary: str,
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=summary, description=summary)
    add_broker_options(parser, is_action=True)
    parser.set_defaults(run_action=run_action)
    return parser


def _add_resource(parser: argparse.ArgumentParser) -> None:
    on = parser.add_mutually_exclusive_group()
    on.add_argument("--topic", metavar="NAME", help="a name, or * for all")
    on.add_argument("--group", metavar="NAME")
    on.add_argument("--transactional-id", metavar="NAME")
    on.add_argument("--cluster", action="store_true")
    parser.add_argument("--prefixed", action="store_true", help="NAME is the beginning of names")


def _add_who(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--principal", metavar="PRINCIPAL", help="such as User:alice")
    parser.add_argument("--host", metavar="ADDRESS")
    parser.add_argument("--operation", type=_operation)


def _operation(text: str) -> Operation:
    try:
        return Operation[text.upper().replace("-", "_")]
    except KeyError:
        known = ", ".join(one.name for one in Operation)
        raise argparse.ArgumentTypeError(f"{text!r} is none of {known}") from None


def run(options: argparse.Namespace) -> int:
    options.run_action(options)
    return OK


def _resource(options: argparse.Namespace) -> tuple[ResourceKind, str] | None:
    if options.cluster:
        return CLUSTER
    for kind, name in (
        (ResourceKind.TOPIC, options.topic),
        (ResourceKind.GROUP, options.group),
        (ResourceKind.TRANSACTIONAL_ID, options.transactional_id),
    ):
        if name is not None:
            return kind, name
    return None


def _filter(options: argparse.Namespace) -> AclFilter:
    kind, name = _resource(options) or (None, None)
    return AclFilter(
        kind,
        name,
        PatternKind.PREFIXED if options.prefixed else None,
        principal=options.principal,
        host=options.host,
        operation=options.operation,
    )


def _list(options: argparse.Namespace) -> None:
    from logstore.cli.brokers.acl_calls import list_acls
    from logstore.cli.brokers.cluster_calls import cluster_of

    with cluster_of(options.bootstrap) as cluster:
        acls = list_acls(cluster, _filter(options))
    _show(options, acls, f"{len(acls)} ACLs")


def _add(options: argparse.Namespace) -> None:
    from logstore.cli.brokers.acl_calls import add_acls
    from logstore.cli.brokers.cluster_calls import cluster_of

    resource = _resource(options)
    if resource is None:
        raise Invalid("say on what: --topic, --group, --transactional-id or --cluster")
    pattern = PatternKind.PREFIXED if options.prefixed else PatternKind.LITERAL
    permission = Permission.ALLOW if options.allow else Permission.DENY
    acls = [
        Acl(*resource, pattern, principal, options.host, operation, permission)
        for principal in options.allow or options.deny
        for operation in options.operation
    ]
    with cluster_of(options.bootstrap) as cluster:
        add_acls(cluster, acls)
    _show(options, acls, f"added {len(acls)}")


def _remove(options: argparse.Namespace) -> None:
    from logstore.cli.brokers.acl_calls import list_acls, remove_acls
    from logstore.cli.brokers.cluster_calls import cluster_of

    wanted = _filter(options)
    if wanted == AclFilter():
        raise Invalid("say which: --topic, --group, --principal, …; nothing was removed")
    with cluster_of(options.bootstrap) as cluster:
        acls = list_acls(cluster, wanted)
        for begin in range(0, len(acls), AT_ONCE_MAX):
            remove_acls(cluster, acls[begin : begin + AT_ONCE_MAX])
    _show(options, acls, f"removed {len(acls)}")


def _show(options: argparse.Namespace, acls: list[Acl], title: str) -> None:
    if options.json:
        print_json(
            [
                {
                    "resource": one.kind.name,
                    "name": one.name,
                    "pattern": one.pattern.name,
                    "principal": one.principal,
                    "host": one.host,
                    "operation": one.operation.name,
                    "permission": one.permission.name,
                }
                for one in acls
            ]
        )
        return
    print_table(
        title,
        ("permission", "principal", "host", "operation", "resource", "pattern", "name"),
        [
            (
                one.permission.name,
                one.principal,
                one.host,
                one.operation.name,
                one.kind.name,
                one.pattern.name,
                one.name,
            )
            for one in acls
        ],
    )


COMMAND = Command("list, add and remove ACLs: what clients may do", configure, run)
