"""moto as an S3 and DynamoDB server in this process, with one lock around it, for the fast tests.

moto's check and its write are two steps with nothing to stop a thread between them, so alone it
lets two racers win, which neither service does. With the lock it is held to the contract suites.
"""

import copy
import functools
import io
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

REGION = "us-east-1"
ENVIRONMENT: Mapping[str, str] = {
    "AWS_ACCESS_KEY_ID": "AKIATESTACCESSKEY000",
    "AWS_SECRET_ACCESS_KEY": "test-secret",
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""What the AWS environment must be for a test that talks to a local server."""
observers: list[Callable[[Mapping[str, Any]], None]] = []
"""Each is called with the WSGI environment of every request, in the server's thread."""


@contextmanager
def aws_environment(more: Mapping[str, str] | None = None) -> Iterator[None]:
    """`ENVIRONMENT` and `more` in this process, and nothing else that begins with AWS_."""
    before = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    for name in before:
        del os.environ[name]
    os.environ.update({**ENVIRONMENT, **(more or {})})
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            del os.environ[name]
        os.environ.update(before)


@functools.cache
def locked_moto() -> str:
    """The endpoint of the one server of this process; its threads end with the process."""
    from moto.moto_server import threaded_moto_server
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler

    lock = threading.Lock()

    class Locked(DomainDispatcherApplication):
        def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
            length = environ.get("CONTENT_LENGTH")
            if length:  # a slow body is not waited for inside the lock
                environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(int(length)))
            for observe in tuple(observers):
                observe(environ)
            with lock:
                return list(super().__call__(environ, start_response))

    class Prompt(MotoRequestHandler):
        disable_nagle_algorithm = True  # else every answer waits 40 ms for the client's ACK

    _save_tables_once()
    served: Any = threaded_moto_server  # it takes both classes from its own names
    original = served.DomainDispatcherApplication
    original_handler = served.MotoRequestHandler
    served.DomainDispatcherApplication = Locked
    served.MotoRequestHandler = Prompt
    try:
        server = threaded_moto_server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        server.start()
    finally:
        served.DomainDispatcherApplication = original
        served.MotoRequestHandler = original_handler
    host, port = server.get_host_and_port()
    return f"http://{host}:{port}"


def _save_tables_once() -> None:
    """moto copies a whole table for each item of a transaction; one copy undoes it as well."""
    from moto.dynamodb import models
    from moto.dynamodb.models.table import Table

    named: Any = models  # it takes the copier from its own names
    original = models.DynamoDBBackend.transact_write_items

    def transact(backend: models.DynamoDBBackend, items: list[dict[str, Any]]) -> None:
        saved: dict[str, Table] = {}

        def deepcopy(value: Any) -> Any:
            if not isinstance(value, Table):
                return copy.deepcopy(value)
            if value.name not in saved:
                saved[value.name] = copy.deepcopy(value)
            return saved[value.name]

        named.copy = SimpleNamespace(deepcopy=deepcopy, copy=copy.copy)
        try:
            original(backend, items)
        finally:
            named.copy = copy

    named.DynamoDBBackend.transact_write_items = transact
