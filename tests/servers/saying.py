"""An S3 server that answers every request with what a test says: for what real ones say rarely."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Saying:
    """`requests` are method, path and lower-case headers, in order of arrival."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.say(200)

    def say(self, status: int, code: str = "", message: str = "as said", more: str = "") -> None:
        """From now on. An empty `code` is an empty body."""
        self.status = status
        self.body = (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code>'
            f"<Message>{message}</Message>{more}</Error>"
            if code
            else ""
        ).encode()


@contextmanager
def saying_server() -> Iterator[Saying]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_any(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            said.requests.append((self.command, self.path, headers))
            self.send_response(said.status)
            self.send_header("content-length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(said.body)

        do_GET = do_PUT = do_DELETE = do_any  # noqa: N815 - http.server's names

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: tests look at `requests`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    said = Saying(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield said
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
