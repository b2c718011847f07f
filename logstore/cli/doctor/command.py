"""`logstore doctor`: what is wrong with a log and its brokers, the worst first, and what to do."""

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from logstore.cli.broker_access import access_of, add_command_config
from logstore.cli.command import FAILED, OK, Command, addresses
from logstore.cli.output import print_json, print_line, progress
from logstore.cli.storage_arguments import add_url, storage_of

if TYPE_CHECKING:
    from logstore.cli.brokers.cluster_calls import Cluster
    from logstore.cli.decisions.doctor_facts import CertificateFacts, DamageFacts, GroupFacts
    from logstore.formats.broker_row import BrokerRow
    from logstore.wiring.open import ReadableLog

REACH_TIMEOUT_S = 3.0


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    parser.add_argument(
        "--bootstrap",
        type=addresses,
        metavar="HOST:PORT",
        help="ask brokers too: whether each is reached, and the lag of groups",
    )
    add_command_config(parser)
    parser.add_argument(
        "--read-only",
        action="store_true",
        help="do not try rights by writing: for an identity that may only read",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(fail=parser.error)


def run(options: argparse.Namespace) -> int:
    from logstore.cli.decisions.doctor_findings import findings_of, is_healthy
    from logstore.cli.doctor.collect import FactCollector
    from logstore.cli.main import installed_version
    from logstore.ports.clock import SystemClock, blocking_sleep_s
    from logstore.wiring.open import open_readable

    storage = storage_of(options)
    log = open_readable(options.url, storage)
    try:
        facts = FactCollector(log, SystemClock(), blocking_sleep_s).collect(
            installed_version(),
            probe=None if options.read_only else lambda: _probe(options.url, storage),
            damage=lambda: _damage(log),
            certificates=lambda: _certificates(options.url, storage),
            reach=None if options.bootstrap is None else lambda rows: _reach(options, rows),
        )
    finally:
        log.close()
    findings = findings_of(facts)
    if options.json:
        print_json({"healthy": is_healthy(findings), "findings": findings, "facts": facts})
    else:
        for one in findings:
            action = f"; do: {one.action}" if one.action else ""
            print_line(f"{one.severity:6}  {one.about:10}  {one.text}{action}")
    return OK if is_healthy(findings) else FAILED


def _probe(url: str, storage: Mapping[str, str]) -> Sequence[str]:
    from logstore.cli.log.probing import ports
    from logstore.wiring.initialise import probe_log

    return probe_log(url, storage, ports()).report.faults


def _certificates(url: str, storage: Mapping[str, str]) -> "list[CertificateFacts]":
    """Of an S3 server that is not AWS's."""
    from logstore.cli.decisions.doctor_facts import CertificateFacts
    from logstore.cli.doctor.certificates import certificate_ends_ms
    from logstore.objects.s3_options import S3Options
    from logstore.ports.clock import SystemClock

    endpoint = S3Options.of(storage).endpoint if url.startswith("s3") else None
    if endpoint is None or not endpoint.startswith("https:"):
        return []
    ends_ms = certificate_ends_ms(endpoint, REACH_TIMEOUT_S)
    return [CertificateFacts(endpoint, ends_ms - SystemClock().now_ms())]


def _damage(log: "ReadableLog") -> "list[DamageFacts]":
    from logstore.cli.decisions.doctor_facts import DamageFacts
    from logstore.cli.fsck.log import check_log
    from logstore.protocol.rules.checks import CURES

    with progress("checking segments", None) as advance:
        verdict = check_log(log, advance)
    return [
        DamageFacts(one.what.value, one.where, one.detail, CURES[one.what])
        for one in verdict.problems
    ]


def _reach(
    options: argparse.Namespace, rows: "Mapping[int, BrokerRow]"
) -> "tuple[dict[int, str], list[GroupFacts]]":
    """Brokers whose address does not answer, with the error; groups with their lag."""
    from logstore.cli.brokers.cluster_calls import cluster_of
    from logstore.errors import LogstoreError

    access = access_of(options)
    unreached = {}
    for broker, row in rows.items():
        try:
            access.open(row.host, row.port, REACH_TIMEOUT_S).close()
        except LogstoreError as error:
            unreached[broker] = str(error)
    with cluster_of(options.bootstrap, access=access) as cluster:
        return unreached, _groups(cluster)


def _groups(cluster: "Cluster") -> "list[GroupFacts]":
    from logstore.cli.brokers.group_calls import describe_group, list_groups
    from logstore.cli.decisions.doctor_facts import GroupFacts

    groups = []
    for line in list_groups(cluster):
        described = describe_group(cluster, line.group)
        lag = sum(one.lag or 0 for one in described.offsets)
        groups.append(GroupFacts(line.group, described.state, lag))
    return groups


COMMAND = Command("say what is wrong with a log and its brokers, and what to do", configure, run)
