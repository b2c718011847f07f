"""`logstore init`: create a log in a bucket, or check an existing one."""

import argparse

from logstore.cli.command import OK, Command
from logstore.cli.output import print_facts, print_json, print_part
from logstore.cli.storage_arguments import add_url


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    parser.add_argument(
        "--registry",
        metavar="URL",
        help="dynamodb://TABLE[?region=REGION&endpoint=URL], created if it does not exist; "
        "a directory needs none",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(fail=parser.error)


def run(options: argparse.Namespace) -> int:
    from logstore.cli.probing import (
        checked_storage,
        deleted_text,
        ports,
        print_report,
        report_json,
    )
    from logstore.wiring.initialise import initialise

    storage = checked_storage(options, options.registry)
    done = initialise(options.url, options.registry, storage, ports())
    if options.json:
        print_json(
            {
                "url": done.url,
                "registry": done.registry,
                "cluster_id": done.cluster_id,
                "created_log": done.created_log,
                "created_table": done.created_table,
                "keeps_deleted": done.keeps_deleted,
                "probe": report_json(done.report),
            }
        )
        return OK
    print_facts(
        [
            ("log", f"{done.url} ({'created' if done.created_log else 'exists'})"),
            ("registry", f"{done.registry}{' (table created)' if done.created_table else ''}"),
            ("cluster", done.cluster_id.hex()),
            ("deleted objects", deleted_text(done.url, done.keeps_deleted)),
        ]
    )
    print_report(done.report)
    print_part(f"ready: logstore serve --url {done.url}")
    return OK


COMMAND = Command("create a log in a bucket, or check an existing one", configure, run)
