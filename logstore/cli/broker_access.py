"""How commands reach brokers: plain, or as the file of `--command-config` says."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from logstore.errors import Invalid

if TYPE_CHECKING:
    from logstore.wire.framing.client import Connection
    from logstore.wire.framing.client_security import ClientSecurity


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    security: "ClientSecurity | None" = None

    def open(self, host: str, port: int, timeout_s: float) -> "Connection":
        """Raises as `Connection.open`."""
        from logstore.wire.framing.client import Connection
        from logstore.wire.framing.client_security import PLAIN as NO_TLS

        return Connection.open(host, port, timeout_s, security=self.security or NO_TLS)


PLAIN_ACCESS = BrokerAccess()


def add_command_config(parser: argparse.ArgumentParser, *, is_action: bool = False) -> None:
    """`--command-config`, as Kafka's tools have it."""
    parser.add_argument(
        "--command-config",
        type=Path,
        default=argparse.SUPPRESS if is_action else None,
        metavar="FILE",
        help="client.properties with security.protocol, ssl.… and sasl.… settings",
    )


def access_of(options: argparse.Namespace) -> BrokerAccess:
    """Raises `Invalid`, which shows no secret."""
    path: Path | None = options.command_config
    if path is None:
        return PLAIN_ACCESS
    from logstore.config.client_properties import parse_client_properties
    from logstore.wire.framing.client_security import ClientSecurity, login_by
    from logstore.wire.framing.login import ClientLogin
    from logstore.wiring.tls_contexts import client_context

    try:
        text = path.read_text()
    except (OSError, ValueError) as error:
        raise Invalid(f"cannot read the settings of {path}: {error}") from error
    try:
        given = parse_client_properties(text)
        context = None
        if given.protocol.is_tls:
            context = client_context(given.text, checks_name=given.checks_name)
    except Invalid as error:
        raise Invalid(f"{error}, in {path}") from error
    login = None
    if given.mechanism:
        login = login_by(ClientLogin(given.mechanism, given.mechanism, given.user, given.password))
    return BrokerAccess(ClientSecurity(context, login))
