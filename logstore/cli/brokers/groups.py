"""`logstore groups`: list, describe and delete consumer groups, and move where they go on."""

import argparse
from collections.abc import Callable

from logstore.cli.broker_access import access_of
from logstore.cli.command import OK, Command, add_broker_options
from logstore.cli.output import print_facts, print_json, print_line, print_table

NONE = "-"


def configure(parser: argparse.ArgumentParser) -> None:
    add_broker_options(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    _action(actions, "list", _list, "all groups, and their states")
    describe = _action(actions, "describe", _describe, "members, offsets, lag")
    describe.add_argument("group")
    reset = _action(
        actions, "reset-offsets", _reset, "set committed offsets; the group must have no members"
    )
    reset.add_argument("group")
    reset.add_argument("--topic", required=True, action="append", help="may be repeated")
    where = reset.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--to",
        metavar="earliest|latest|OFFSET|TIME",
        help="a time is like 2026-01-31T12:00:00, in UTC unless it says otherwise",
    )
    where.add_argument(
        "--shift-by", type=int, metavar="N", help="move by N records, back if negative"
    )
    reset.add_argument("--dry-run", action="store_true", help="print the changes, make none")
    _action(actions, "delete", _delete, "delete a group and its offsets").add_argument("group")


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


def run(options: argparse.Namespace) -> int:
    options.run_action(options)
    return OK


def _list(options: argparse.Namespace) -> None:
    from logstore.cli.brokers.cluster_calls import cluster_of
    from logstore.cli.brokers.group_calls import list_groups

    with cluster_of(options.bootstrap, access=access_of(options)) as cluster:
        groups = list_groups(cluster)
    if options.json:
        print_json(groups)
    else:
        print_table(
            f"{len(groups)} groups",
            ("group", "state", "type", "coordinator"),
            [(g.group, g.state, g.protocol_type or NONE, g.coordinator) for g in groups],
        )


def _describe(options: argparse.Namespace) -> None:
    from logstore.cli.brokers.cluster_calls import cluster_of
    from logstore.cli.brokers.group_calls import describe_group

    with cluster_of(options.bootstrap, access=access_of(options)) as cluster:
        group = describe_group(cluster, options.group)
    if options.json:
        print_json(group)
        return
    facts = [("group", group.group), ("state", group.state)]
    if group.protocol_type:
        facts.append(("protocol", f"{group.protocol_type} {group.protocol}".strip()))
    print_facts(facts)
    print_table(
        f"{len(group.members)} members",
        ("member", "instance", "client", "host", "partitions"),
        [
            (m.member_id, m.instance_id or NONE, m.client_id, m.host, " ".join(m.partitions))
            for m in group.members
        ],
    )
    print_table(
        f"{len(group.offsets)} offsets",
        ("topic", "partition", "committed", "end", "lag", "member"),
        [
            (o.topic, o.partition, o.committed, o.end, o.lag, o.member_id or NONE)
            for o in group.offsets
        ],
    )


def _reset(options: argparse.Namespace) -> None:
    from logstore.cli.brokers.cluster_calls import cluster_of
    from logstore.cli.brokers.group_reset import reset_offsets
    from logstore.cli.decisions.offset_reset import Target, parse_target

    target = parse_target(options.to) if options.to else Target(shift=options.shift_by)
    with cluster_of(options.bootstrap, access=access_of(options)) as cluster:
        lines = reset_offsets(
            cluster, options.group, options.topic, target, is_dry_run=options.dry_run
        )
    if options.json:
        print_json(lines)
        return
    what = "would go on" if options.dry_run else "goes on"
    print_table(
        f"group {options.group} {what} here",
        ("topic", "partition", "before", "after"),
        [(line.topic, line.partition, line.before, line.after) for line in lines],
    )


def _delete(options: argparse.Namespace) -> None:
    from logstore.cli.brokers.cluster_calls import cluster_of
    from logstore.cli.brokers.group_calls import delete_group

    with cluster_of(options.bootstrap, access=access_of(options)) as cluster:
        delete_group(cluster, options.group)
    if options.json:
        print_json({"deleted": options.group})
    else:
        print_line(f"deleted {options.group}")


COMMAND = Command("list, describe and delete consumer groups, reset their offsets", configure, run)
