"""`logstore topics`: list, create, describe, change and delete topics through a broker."""

import argparse
from collections.abc import Callable, Iterable

from logstore.cli.broker_access import access_of
from logstore.cli.command import (
    OK,
    Command,
    add_broker_options,
    positive_number,
    setting,
    whole_number,
)
from logstore.cli.output import print_facts, print_json, print_line, print_table
from logstore.errors import Invalid


def configure(parser: argparse.ArgumentParser) -> None:
    add_broker_options(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    _action(actions, "list", _list, "names of all topics", named=False)
    create = _action(actions, "create", _create, "create a topic")
    _add_partitions_and_configs(create, "default: the broker's")
    create.add_argument(
        "--replicas",
        type=positive_number,
        metavar="N",
        help="replicas of each partition; default: the broker's",
    )
    _action(actions, "describe", _describe, "partitions, leaders, replicas, offsets")
    alter = _action(actions, "alter", _alter, "add partitions, change settings")
    _add_partitions_and_configs(alter, "new number of partitions, higher than now")
    alter.add_argument(
        "--unset",
        action="append",
        default=[],
        metavar="KEY",
        help="reset this setting to its default; may be repeated",
    )
    reassign = _action(actions, "reassign", _reassign, "move partitions to other brokers")
    _add_partition(reassign)
    wanted = reassign.add_mutually_exclusive_group(required=True)
    wanted.add_argument(
        "--replicas",
        type=broker_ids,
        metavar="ID,ID…",
        help="its new replicas, the preferred leader first",
    )
    wanted.add_argument("--cancel", action="store_true", help="cancel a reassignment")
    _add_partition(_action(actions, "elect", _elect, "make the first replica the leader"))
    _action(actions, "delete", _delete, "delete a topic and its records")


def broker_ids(text: str) -> list[int]:
    return [whole_number(part.strip()) for part in text.split(",")]


def _add_partitions_and_configs(parser: argparse.ArgumentParser, partitions: str) -> None:
    parser.add_argument("--partitions", type=positive_number, metavar="N", help=partitions)
    parser.add_argument(
        "--config",
        type=setting,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the topic, by Kafka's name; may be repeated",
    )


def _add_partition(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--partition",
        type=whole_number,
        action="append",
        metavar="P",
        help="only this partition; may be repeated; default: all",
    )


def _action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    run_action: Callable[[argparse.Namespace], None],
    summary: str,
    *,
    named: bool = True,
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=summary, description=summary)
    add_broker_options(parser, is_action=True)
    parser.set_defaults(run_action=run_action)
    if named:
        parser.add_argument("name")
    return parser


def run(options: argparse.Namespace) -> int:
    options.run_action(options)
    return OK


def _list(options: argparse.Namespace) -> None:
    from logstore.cli.brokers.topic_calls import connect, list_topics

    with connect(options.bootstrap, access_of(options)) as connection:
        topics = list_topics(connection)
    if options.json:
        print_json(topics)
    else:
        for topic in topics:
            print_line(topic.name)


def _create(options: argparse.Namespace) -> None:
    from logstore.cli.brokers.topic_calls import connect, create_topic

    with connect(options.bootstrap, access_of(options)) as connection:
        created = create_topic(
            connection, options.name, options.partitions, options.replicas, dict(options.config)
        )
    if options.json:
        print_json(created)
    else:
        print_line(f"created {created.name}: partitions={created.partition_count}")


def _describe(options: argparse.Namespace) -> None:
    from logstore.cli.brokers.topic_calls import connect, describe_topic

    with connect(options.bootstrap, access_of(options)) as connection:
        topic = describe_topic(connection, options.name, access_of(options))
    if options.json:
        print_json(topic)
        return
    print_facts([("topic", topic.name), ("topic id", topic.topic_id)])
    print_table(
        f"{len(topic.partitions)} partitions",
        ("partition", "leader", "leader epoch", "replicas", "in sync", "start", "end"),
        [
            (
                p.partition,
                p.leader,
                p.leader_epoch,
                _numbers(p.replicas),
                _numbers(p.in_sync),
                p.start,
                p.end,
            )
            for p in topic.partitions
        ],
    )


def _alter(options: argparse.Namespace) -> None:
    from logstore.cli.brokers.topic_calls import connect
    from logstore.cli.brokers.topic_changes import add_partitions, alter_configs

    name, sets, unsets = options.name, dict(options.config), options.unset
    if not (options.partitions or sets or unsets):
        raise Invalid("nothing to change: give --partitions, --config or --unset")
    with connect(options.bootstrap, access_of(options)) as connection:
        if sets or unsets:
            alter_configs(connection, name, sets, unsets)
        if options.partitions:
            add_partitions(connection, name, options.partitions)
    if options.json:
        changed = {"partitions": options.partitions, "set": sets, "unset": unsets}
        print_json({"altered": name, **changed})
    else:
        print_line(f"altered {name}")


def _reassign(options: argparse.Namespace) -> None:
    from logstore.cli.brokers.topic_calls import connect
    from logstore.cli.brokers.topic_changes import reassign

    with connect(options.bootstrap, access_of(options)) as connection:
        numbers = reassign(connection, options.name, options.partition, options.replicas)
    if options.json:
        print_json({"reassigned": options.name, "partitions": numbers, "to": options.replicas})
    else:
        done = "cancelled" if options.cancel else f"to brokers {_numbers(options.replicas)}"
        print_line(f"reassigned {options.name}: partitions={_numbers(numbers)} {done}")


def _elect(options: argparse.Namespace) -> None:
    from logstore.cli.brokers.topic_calls import connect
    from logstore.cli.brokers.topic_changes import elect

    with connect(options.bootstrap, access_of(options)) as connection:
        elected = elect(connection, options.name, options.partition)
    if options.json:
        print_json({"elected": options.name, "partitions": elected})
    elif elected:
        print_line(f"elected {options.name}: partitions={_numbers(elected)}")
    else:
        print_line(f"elected {options.name}: every partition is led by its first replica")


def _delete(options: argparse.Namespace) -> None:
    from logstore.cli.brokers.topic_calls import connect, delete_topic

    with connect(options.bootstrap, access_of(options)) as connection:
        delete_topic(connection, options.name)
    if options.json:
        print_json({"deleted": options.name})
    else:
        print_line(f"deleted {options.name}")


def _numbers(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


COMMAND = Command("list, create, describe, change and delete topics", configure, run)
