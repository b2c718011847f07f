"""`logstore inspect`: contents of a log, read from its objects and registry, without a broker."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from logstore.cli.command import FAILED, OK, Command, positive_number, setting, whole_number
from logstore.cli.environment import environment_url
from logstore.cli.output import print_json

if TYPE_CHECKING:
    from logstore.wiring.open import ReadableLog

View = Callable[["ReadableLog", argparse.Namespace], int]


def configure(parser: argparse.ArgumentParser) -> None:
    _add_common(parser, inner=False)
    parser.set_defaults(view=_overview, fail=parser.error)
    parts = parser.add_subparsers(dest="what", metavar="WHAT")

    chain = _part(parts, "chain", _chain, "every segment of one chain")
    chain.add_argument("epoch", type=whole_number)
    segment = _part(parts, "segment", _segment, "header and every index entry of one segment")
    segment.add_argument("epoch", type=whole_number)
    segment.add_argument("seq", type=whole_number)
    checkpoint = _part(parts, "checkpoint", _checkpoint, "one checkpoint")
    checkpoint.add_argument("epoch", type=whole_number)
    checkpoint.add_argument("seq", type=whole_number)
    _part(parts, "registry", _registry, "every row of the registry")
    topic = _part(parts, "topic", _topic, "one topic, and records of it")
    topic.add_argument("name")
    topic.add_argument(
        "--records",
        type=positive_number,
        default=0,
        metavar="N",
        help="also show N records of each partition, the newest unless --offset is given",
    )
    topic.add_argument("--partition", type=whole_number, metavar="P", help="only this partition")
    topic.add_argument("--offset", type=whole_number, metavar="O", help="records from this offset")


def _part(
    parts: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    view: View,
    summary: str,
) -> argparse.ArgumentParser:
    parser = parts.add_parser(name, help=summary, description=summary)
    _add_common(parser, inner=True)
    parser.set_defaults(view=view, fail=parser.error)
    return parser


def _add_common(parser: argparse.ArgumentParser, *, inner: bool) -> None:
    """On both sides of WHAT, wherever people write them; the inner ones do not reset the outer."""
    absent: Any = argparse.SUPPRESS
    parser.add_argument(
        "--url",
        default=absent if inner else environment_url(),
        help="the log: a directory, or s3://BUCKET/PREFIX",
    )
    parser.add_argument(
        "--fsspec",
        action="store_true",
        default=absent if inner else False,
        help="read the objects through fsspec (s3fs, …): an independent client, any URL it "
        "supports",
    )
    parser.add_argument(
        "--json", action="store_true", default=absent if inner else False, help="print JSON"
    )
    parser.add_argument(
        "--set",
        type=setting,
        action="append",
        default=absent if inner else [],
        dest="more_storage" if inner else "storage",
        metavar="NAME=VALUE",
        help="a storage.* setting, to reach a bucket; may be repeated",
    )


def run(options: argparse.Namespace) -> int:
    from logstore.cli.storage_arguments import storage_of
    from logstore.wiring.open import open_readable

    if options.url is None:
        options.fail("the following arguments are required: --url")
    options.storage += getattr(options, "more_storage", [])
    log = open_readable(options.url, storage_of(options), through_fsspec=options.fsspec)
    try:
        code: int = options.view(log, options)
        return code
    finally:
        log.close()


def _overview(log: "ReadableLog", options: argparse.Namespace) -> int:
    from logstore.cli.inspect.log_overview import read_log_overview
    from logstore.cli.inspect.text import print_overview

    overview = read_log_overview(log)
    print_json(overview) if options.json else print_overview(overview)
    return FAILED if overview.findings else OK


def _chain(log: "ReadableLog", options: argparse.Namespace) -> int:
    from logstore.cli.inspect.chain_view import view_chain
    from logstore.cli.inspect.text import print_chain

    view = view_chain(log, options.epoch)
    print_json(view) if options.json else print_chain(view)
    return FAILED if view.findings else OK


def _segment(log: "ReadableLog", options: argparse.Namespace) -> int:
    from logstore.cli.inspect.registry_view import topic_names
    from logstore.cli.inspect.segment_view import view_segment
    from logstore.cli.inspect.text import print_segment

    view = view_segment(log, options.epoch, options.seq, topic_names(log))
    print_json(view) if options.json else print_segment(view)
    return FAILED if view.findings else OK


def _checkpoint(log: "ReadableLog", options: argparse.Namespace) -> int:
    from logstore.cli.inspect.checkpoint_view import view_checkpoint
    from logstore.cli.inspect.registry_view import topic_names
    from logstore.cli.inspect.text import print_checkpoint

    view = view_checkpoint(log, options.epoch, options.seq, topic_names(log))
    print_json(view) if options.json else print_checkpoint(view)
    return FAILED if view.findings else OK


def _registry(log: "ReadableLog", options: argparse.Namespace) -> int:
    from logstore.cli.inspect.registry_view import view_registry
    from logstore.cli.inspect.text import print_registry

    rows = view_registry(log)
    print_json(rows) if options.json else print_registry(rows)
    return FAILED if any(row.fault for row in rows) else OK


def _topic(log: "ReadableLog", options: argparse.Namespace) -> int:
    from logstore.cli.inspect.topic_text import print_topic, topic_json
    from logstore.cli.inspect.topic_view import RecordSelection, view_topic
    from logstore.ports.clock import SystemClock

    wanted = RecordSelection(options.records, options.partition, options.offset)
    view = view_topic(log, options.name, wanted, now_ms=SystemClock().now_ms())
    print_json(topic_json(view)) if options.json else print_topic(view)
    return OK


COMMAND = Command(
    "show the contents of a log, without a broker; everything unless WHAT is given", configure, run
)
