"""When the certificate of a server ends: one TLS handshake, whose certificate is only read.

It is not verified here: one that has ended is to be read, too.
"""

import socket
import ssl
from urllib.parse import urlsplit

from logstore.errors import Unavailable
from logstore.security.certificates import not_after_ms

HTTPS_PORT = 443


def certificate_ends_ms(url: str, timeout_s: float) -> int:
    """Of the server at an https URL, by the wall clock. Raises `Unavailable` or `Corrupt`."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, parts.port or HTTPS_PORT), timeout_s) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
        ):
            data = secured.getpeercert(binary_form=True)
    except OSError as error:  # of TLS, too
        raise Unavailable(f"no TLS handshake: url={url} {error}") from error
    if data is None:
        raise Unavailable(f"the server showed no certificate: url={url}")
    return not_after_ms(data)
