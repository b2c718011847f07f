"""`logstore users`: users that log in by SCRAM. They are rows of the registry; no broker is needed.

Passwords come from a file or the terminal, never from the command line, which others can read.
"""

import argparse
from collections.abc import Callable

from logstore.cli.command import OK, Command
from logstore.cli.output import print_json, print_line, print_table
from logstore.cli.storage_arguments import add_url, storage_of
from logstore.security.scram import HASHES, SHA_512


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    listing = _action(actions, "list", _list, "all users, and the mechanisms they log in by")
    listing.add_argument("--json", action="store_true", help="print JSON")
    add = _action(actions, "add", _add, "a user that is not there")
    change = _action(actions, "set-password", _set_password, "another password for a user")
    change.add_argument(
        "--keep-previous",
        metavar="TIME",
        help="for so long (30s, 5m, 1h) the password before counts too, so that clients can change",
    )
    for action in (add, change):
        action.add_argument("name")
        add_password(action)
        action.add_argument(
            "--mechanism",
            action="append",
            choices=sorted(HASHES),
            help=f"may be repeated (default {SHA_512})",
        )
    delete = _action(actions, "delete", _delete, "a user; its connections end within a second")
    delete.add_argument("name")


def add_password(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--password-file",
        metavar="FILE",
        help="the password in a file, or - for standard input; default: asked for",
    )


def _action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    run_action: Callable[[argparse.Namespace], None],
    summary: str,
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=summary, description=summary)
    add_url(parser)
    parser.set_defaults(run_action=run_action)
    return parser


def run(options: argparse.Namespace) -> int:
    options.run_action(options)
    return OK


def _list(options: argparse.Namespace) -> None:
    from logstore.cli.log.user_changes import user_lines

    lines = user_lines(options.url, storage_of(options))
    if options.json:
        print_json(lines)
    else:
        print_table(
            f"{len(lines)} users",
            ("user", "mechanisms"),
            [(line.user, ", ".join(line.mechanisms)) for line in lines],
        )


def _add(options: argparse.Namespace) -> None:
    from logstore.cli.log.passwords import read_password
    from logstore.cli.log.user_changes import NewPassword, add_user, change

    password = read_password(options.password_file)
    new = NewPassword(options.name, password, options.mechanism or [SHA_512])
    change(options.url, storage_of(options), options.name, add_user(new))
    print_line(f"user {options.name} added")


def _set_password(options: argparse.Namespace) -> None:
    from logstore.cli.log.passwords import read_password
    from logstore.cli.log.user_changes import NewPassword, change, kept_ms, set_password

    keep_ms = kept_ms(options.keep_previous)
    password = read_password(options.password_file)
    new = NewPassword(options.name, password, options.mechanism or [])
    change(options.url, storage_of(options), options.name, set_password(new, keep_ms))
    print_line(f"password of {options.name} set; the next login needs it")


def _delete(options: argparse.Namespace) -> None:
    from logstore.cli.log.user_changes import change, delete_user

    change(options.url, storage_of(options), options.name, delete_user(options.name))
    print_line(f"user {options.name} deleted")


COMMAND = Command("list, add and delete users, set their passwords", configure, run)
