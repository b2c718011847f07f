"""`logstore health`: whether the broker of this container or machine is healthy, by its HTTP port.

0    it is
1    it is not, it does not answer, or settings name no HTTP port to look at

For the HEALTHCHECK of an image, which has no curl: it imports no more than it needs, since it runs
every few seconds. `--http`, `LOGSTORE_HTTP` and a file are read as `logstore serve` reads them.
"""

import argparse
import socket
import sys

from logstore.cli.command import OK, Command
from logstore.errors import Invalid, Refused, Unavailable

HEALTHY, READY = "healthy", "ready"
TIMEOUT_S = 4.0
ANSWER_BYTES_MAX = 64 * 1024
HTTP_OK = 200
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # a server there listens on every address


def configure(parser: argparse.ArgumentParser) -> None:
    from broker.process.given import add_flag, add_sources
    from logstore.config import flags

    add_flag(parser, "--http", flags.HTTP, metavar="HOST:PORT")
    parser.add_argument(
        "--ready",
        action="store_true",
        help="look at /readyz: whether it serves clients well (default: /healthz, whether a "
        "restart would help)",
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=TIMEOUT_S,
        metavar="SECONDS",
        help=f"longest wait for an answer (default {TIMEOUT_S:g})",
    )
    add_sources(parser)


def run(options: argparse.Namespace) -> int:
    from broker.process.given import given_settings
    from logstore.config import flags

    given = given_settings(options)
    address = _address(given[flags.HTTP].text if flags.HTTP in given else "")
    status, body = _ask(address, "/readyz" if options.ready else "/healthz", options.timeout)
    wanted = READY if options.ready else HEALTHY
    if status != HTTP_OK:
        raise Refused(f"not {wanted}: {'; '.join(body.splitlines()) or f'status {status}'}")
    sys.stdout.write(f"logstore: {wanted}\n")
    return OK


def _address(text: str) -> tuple[str, int]:
    """Where to ask a broker that was given `text` as its `http`. Raises `Invalid`."""
    from broker.network.listeners import parse_address

    if not text:
        raise Invalid(
            "no HTTP port is named: give broker and health check the same --http, LOGSTORE_HTTP "
            "in the environment, or http in a file"
        )
    place = parse_address(text)
    if place.port == 0:
        raise Invalid(f"http={text} takes any free port, which only the broker knows: name a port")
    return _LOOPBACK.get(place.host, place.host), place.port


def _ask(address: tuple[str, int], path: str, timeout_s: float) -> tuple[int, str]:
    """Status and body. The server closes the connection behind its answer. Raises `Unavailable`."""
    host, port = address
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    answer = b""
    try:
        with socket.create_connection(address, timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {shown}\r\n\r\n".encode())
            while len(answer) < ANSWER_BYTES_MAX and (part := connection.recv(ANSWER_BYTES_MAX)):
                answer += part
    except TimeoutError:
        raise Unavailable(f"no answer from {shown} in {timeout_s:g} s") from None
    except OSError as error:
        raise Unavailable(
            f"no answer from {shown}: {error.strerror or error}; is the broker running, with this "
            "http address?"
        ) from None
    return _parsed(answer, shown)


def _parsed(answer: bytes, shown: str) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(maxsplit=2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise Unavailable(
            f"{shown} does not answer as a broker's HTTP port does; is it another one?"
        )
    return int(words[1]), body.decode(errors="replace")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


COMMAND = Command("say whether the broker of this machine is healthy", configure, run)
