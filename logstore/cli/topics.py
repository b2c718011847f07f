"""`logstore topics`: list, create, describe and delete topics through a broker."""

import argparse
from collections.abc import Callable

from logstore.cli.command import OK, Command, addresses, positive_number, setting
from logstore.cli.output import print_facts, print_json, print_table

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bootstrap",
        type=addresses,
        default=DEFAULT_BOOTSTRAP,
        metavar="HOST:PORT",
        help=f"brokers to ask, the first that answers is taken (default {DEFAULT_BOOTSTRAP})",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    _action(actions, "list", _list, "names of all topics")
    create = _action(actions, "create", _create, "make a topic")
    create.add_argument("name")
    create.add_argument(
        "--partitions", type=positive_number, metavar="N", help="default: the broker's"
    )
    create.add_argument(
        "--config",
        type=setting,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the topic, by Kafka's name; may be repeated",
    )
    _action(actions, "describe", _describe, "partitions, leaders, offsets").add_argument("name")
    _action(actions, "delete", _delete, "delete a topic and its records").add_argument("name")


def _action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    run_action: Callable[[argparse.Namespace], None],
    summary: str,
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=summary, description=summary)
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
    parser.set_defaults(run_action=run_action)
    return parser


def run(options: argparse.Namespace) -> int:
    options.run_action(options)
    return OK


def _list(options: argparse.Namespace) -> None:
    from logstore.cli.topic_calls import connect, list_topics

    with connect(options.bootstrap) as connection:
        topics = list_topics(connection)
    if options.json:
        print_json(topics)
    else:
        for topic in topics:
            print(topic.name)


def _create(options: argparse.Namespace) -> None:
    from logstore.cli.topic_calls import connect, create_topic

    with connect(options.bootstrap) as connection:
        created = create_topic(connection, options.name, options.partitions, dict(options.config))
    if options.json:
        print_json(created)
    else:
        print(f"created {created.name}: partitions={created.partition_count}")


def _describe(options: argparse.Namespace) -> None:
    from logstore.cli.topic_calls import connect, describe_topic

    with connect(options.bootstrap) as connection:
        topic = describe_topic(connection, options.name)
    if options.json:
        print_json(topic)
        return
    print_facts([("topic", topic.name), ("topic id", topic.topic_id)])
    print_table(
        f"{len(topic.partitions)} partitions",
        ("partition", "leader", "leader epoch", "start", "end"),
        [(p.partition, p.leader, p.leader_epoch, p.start, p.end) for p in topic.partitions],
    )


def _delete(options: argparse.Namespace) -> None:
    from logstore.cli.topic_calls import connect, delete_topic

    with connect(options.bootstrap) as connection:
        delete_topic(connection, options.name)
    if options.json:
        print_json({"deleted": options.name})
    else:
        print(f"deleted {options.name}")


COMMAND = Command("list, create, describe and delete topics", configure, run)
