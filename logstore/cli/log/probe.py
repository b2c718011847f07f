"""`logstore probe`: does this store keep the promises that a log rests on, and its registry?"""

import argparse

from logstore.cli.command import FAILED, OK, Command
from logstore.cli.output import print_facts, print_json, print_part
from logstore.cli.storage_arguments import add_url


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
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
    from logstore.errors import Refused
    from logstore.wiring.initialise import probe_log, refusal

    storage = checked_storage(options, None)
    probed = probe_log(options.url, storage, ports())
    if options.json:
        print_json(
            {
                "url": probed.url,
                "registry": probed.registry,
                "keeps_deleted": probed.keeps_deleted,
                "probe": report_json(probed.report),
            }
        )
        return OK if probed.report.is_accepted else FAILED
    print_facts(
        [
            ("store", probed.url),
            ("registry", probed.registry or "no log here yet: not probed"),
            ("deleted objects", deleted_text(probed.url, probed.keeps_deleted)),
        ]
    )
    print_report(probed.report)
    if not probed.report.is_accepted:
        raise Refused(refusal(probed.report))
    print_part("accepted")
    return OK


COMMAND = Command("race conditional writes on a store, and on a log's registry", configure, run)
