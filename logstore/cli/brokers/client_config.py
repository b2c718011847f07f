"""How commands reach brokers that ask who is there: a file of client properties."""

import argparse
from pathlib import Path

from logstore.config.client_properties import client_properties, parse_properties
from logstore.errors import Invalid
from logstore.wire.framing.client_security import PLAIN, ClientSecurity, login_by
from logstore.wire.framing.login import ClientLogin

FILE_BYTES_MAX = 1 << 20


def security_of(options: argparse.Namespace) -> ClientSecurity:
    """By `--command-config`. Raises `Invalid`, which names the file."""
    path: Path | None = options.command_config
    if path is None:
        return PLAIN
    try:
        with path.open("rb") as file:
            text = file.read(FILE_BYTES_MAX).decode()
        properties = client_properties(parse_properties(text))
    except (OSError, ValueError) as error:
        raise Invalid(f"cannot read {path}: {error}") from error
    except Invalid as error:
        raise Invalid(f"{error}, in {path}") from error
    if properties.protocol.is_tls:
        raise Invalid(f"TLS is not supported by this command yet, in {path}")
    login = properties.login
    if login is None:
        return PLAIN
    mechanism, name, password = login
    return ClientSecurity(login=login_by(ClientLogin(mechanism, mechanism, name, password)))
