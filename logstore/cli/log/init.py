"""`logstore init`: create a log in a bucket, or check an existing one."""

import argparse
from typing import TYPE_CHECKING

from logstore.cli.command import OK, Command
from logstore.cli.log.users import add_password
from logstore.cli.output import print_facts, print_json, print_line, print_part
from logstore.cli.storage_arguments import add_url
from logstore.security.scram import HASHES

if TYPE_CHECKING:
    from logstore.cli.log.user_changes import NewPassword


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    parser.add_argument(
        "--registry",
        metavar="URL",
        help="dynamodb://TABLE[?region=REGION&endpoint=URL], created if it does not exist; "
        "a directory needs none",
    )
    parser.add_argument(
        "--admin",
        metavar="NAME",
        help="the first user, who makes the others; see super.users and --password-file",
    )
    add_password(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(fail=parser.error)


def run(options: argparse.Namespace) -> int:
    from logstore.cli.log.probing import (
        checked_storage,
        deleted_text,
        ports,
        print_report,
        report_json,
    )
    from logstore.cli.log.user_changes import add_user, change
    from logstore.wiring.initialise import initialise

    storage = checked_storage(options, options.registry)
    new = None if options.admin is None else _new_user(options)
    done = initialise(options.url, options.registry, storage, ports())
    if new is not None:
        change(options.url, storage, options.admin, add_user(new))
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
    if options.admin is not None:
        print_line(f"user {options.admin} added")
    print_part(f"ready: logstore serve --url {done.url}")
    return OK


def _new_user(options: argparse.Namespace) -> "NewPassword":
    """The password is asked for before anything is made."""
    from logstore.cli.log.passwords import read_password
    from logstore.cli.log.user_changes import NewPassword

    return NewPassword(options.admin, read_password(options.password_file), sorted(HASHES))


COMMAND = Command("create a log in a bucket, or check an existing one", configure, run)
