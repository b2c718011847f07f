"""The fault proxy before real clients and servers: what each fault is to who asked, and to whom."""

import gc
import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

import pytest

from logstore.errors import (
    AlreadyExists,
    Denied,
    LogstoreError,
    NotFound,
    OutcomeUnknown,
    Retryable,
    Throttled,
)
from logstore.objects.s3 import S3BlockingStore
from logstore.objects.s3_options import S3Location, S3Options
from tests.children import child_of
from tests.servers.buckets import new_location
from tests.servers.locked_moto import aws_environment, locked_moto
from tests.servers.proxied import Proxied, proxied
from tests.servers.tables import dynamo_client

TIMEOUT_MS = 2000
"""Short enough to wait for a hang, long enough for a busy machine."""


class Served:
    """A store behind the proxy, and the same place without it."""

    def __init__(self, proxy: Proxied, location: S3Location) -> None:
        self.proxy = proxy
        options = S3Options(endpoint=proxy.endpoint, timeout_ms=TIMEOUT_MS)
        self.store = S3BlockingStore(location, options)
        self.patient = S3BlockingStore(location, S3Options(endpoint=proxy.endpoint))
        self.direct = S3BlockingStore(location, S3Options(endpoint=locked_moto()))

    def is_there(self, key: str) -> bool:
        try:
            self.direct.get(key)
        except NotFound:
            return False
        return True


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxied]:
    with aws_environment(), proxied(locked_moto()) as running:
        yield running


@pytest.fixture
def served(proxy: Proxied) -> Served:
    proxy.play()
    return Served(proxy, new_location(locked_moto()))


def test_what_has_no_fault_passes_unchanged(served: Served) -> None:
    data = bytes(range(256)) * 8192
    served.patient.create("big", [data[:1_000_000], data[1_000_000:]])
    assert served.patient.get("big") == data == served.direct.get("big")
    assert served.patient.get_range("big", 1000, 10) == data[1000:1010]
    assert [info.key for info in served.patient.list("")] == ["big"]
    with pytest.raises(AlreadyExists):
        served.patient.create("big", [b"x"])
    served.patient.delete("big")
    with pytest.raises(NotFound):
        served.patient.get("big")
    counts = served.proxy.counts()
    assert (counts["PUT 200"], counts["PUT 412"], counts["GET 206"], counts["GET 404"]) == (
        *(1, 1),
        *(1, 1),
    )


CREATES: list[tuple[str, type[LogstoreError], bool]] = [
    ("500", OutcomeUnknown, False),
    ("503", Throttled, False),
    ("409", AlreadyExists, False),
    ("403", Denied, False),
    ("reset", OutcomeUnknown, False),
    ("hang", OutcomeUnknown, False),
    ("applied-500", OutcomeUnknown, True),
    ("applied-503", Throttled, True),
    ("applied-reset", OutcomeUnknown, True),
    ("applied-hang", OutcomeUnknown, True),
]


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "error", "happened"), CREATES)
def test_a_create_that_meets_a_fault_gets_an_answer_that_is_true(
    served: Served, fault: str, error: type[LogstoreError], happened: bool
) -> None:
    served.proxy.play(f"{fault} methods=PUT most=1")
    with pytest.raises(error):
        served.store.create("k", [b"data" * 1000])
    assert served.is_there("k") is happened
    assert served.proxy.counts()[f"PUT {fault}"] == 1
    if happened:
        with pytest.raises(AlreadyExists):
            served.store.create("k", [b"data" * 1000])
    else:
        served.store.create("k", [b"data" * 1000])
    assert served.direct.get("k") == b"data" * 1000


READS: list[tuple[str, type[LogstoreError]]] = [
    ("500", Retryable),
    ("503", Throttled),
    ("403", Denied),
    ("reset", Retryable),
    ("hang", Retryable),
    ("cut", Retryable),
]


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "error"), READS)
def test_a_read_that_meets_a_fault_is_an_error_and_never_short(
    served: Served, fault: str, error: type[LogstoreError]
) -> None:
    served.direct.create("k", [b"data" * 1000])
    served.proxy.play(f"{fault} methods=GET most=2")
    with pytest.raises(error):
        served.store.get("k")
    with pytest.raises(error):
        served.store.get_range("k", 10, 2000)
    assert served.store.get("k") == b"data" * 1000


def test_a_late_create_happens_after_its_sender_got_another_answer(served: Served) -> None:
    served.proxy.play("late methods=PUT most=1 seconds=0.3")
    with pytest.raises(OutcomeUnknown):
        served.store.create("k", [b"late"])
    assert not served.is_there("k")
    served.proxy.wait_for("late 200")
    assert served.direct.get("k") == b"late"


def test_a_late_create_meets_what_was_put_before_it(served: Served) -> None:
    served.proxy.play("late methods=PUT most=1 seconds=0.2")
    with pytest.raises(OutcomeUnknown):
        served.store.create("k", [b"late"])
    served.store.create("k", [b"in time"])
    served.proxy.wait_for("late 412")
    assert served.direct.get("k") == b"in time"


def test_rows_get_faults_in_their_own_words(proxy: Proxied) -> None:
    proxy.play()
    with dynamo_client(proxy.endpoint) as client:
        for fault in ("500", "503", "403"):
            proxy.play(f"{fault} path=GetItem most=1")
            with pytest.raises(LogstoreError):
                client.call("get_item", writes=False, Key={"pk": {"S": "a"}, "sk": {"S": "b"}})
            assert proxy.counts()[f"POST {fault}"] == 1
        client.call("get_item", writes=False, Key={"pk": {"S": "a"}, "sk": {"S": "b"}})
    assert proxy.counts()["POST 200"] >= 1


def test_faults_are_read_and_changed_while_it_runs(served: Served) -> None:
    where = urlsplit(served.proxy.endpoint)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=10)

    def ask(method: str, body: object = None) -> tuple[int, dict[str, object]]:
        text = None if body is None else json.dumps(body)
        connection.request(method, "/__faults", text)
        answer = connection.getresponse()
        found: dict[str, object] = json.loads(answer.read())
        return answer.status, found

    rule = {"fault": "500", "methods": ["PUT"], "most": 1}
    status, found = ask("PUT", {"rules": [rule], "latency": 0.0})
    assert status == 200
    assert found["counts"] == {}
    with pytest.raises(OutcomeUnknown):
        served.store.create("k", [b"x"])
    served.store.create("k", [b"x"])
    assert served.store.get("k") == b"x"
    assert ask("GET")[1]["counts"] == {"GET 200": 1, "PUT 200": 1, "PUT 500": 1}
    assert ask("GET")[1]["bytes"] == {"GET": 1, "PUT": 1}
    mistakes: list[object] = [{"rules": [{"fault": "501"}]}, {"rules": 1}, {"speed": 1}, []]
    for wrong in mistakes:
        assert ask("PUT", wrong)[0] == 400
    connection.close()


@pytest.mark.slow
def test_it_runs_as_a_process_of_its_own_and_ends_on_request() -> None:
    upstream = urlsplit(locked_moto()).netloc
    command = [sys.executable, "-m", "logstore.testing.fault_proxy", "--upstream", upstream]
    command += ["--latency", "0", "--rule", "500 methods=PUT most=1"]
    with child_of(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        where = child.stdout.readline().removeprefix("listening on ").strip()
        with aws_environment():
            options = S3Options(endpoint=f"http://{where}")
            store = S3BlockingStore(new_location(locked_moto()), options)
            with pytest.raises(OutcomeUnknown):
                store.create("k", [b"x"])
            store.create("k", [b"x"])
            assert store.get("k") == b"x"
        child.terminate()
        assert child.wait(20) in (0, -15, 130)


@pytest.mark.slow
def test_it_ends_while_clients_arrive_and_a_server_does_not_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf, ExitStack() as clients:

        def client() -> socket.socket:
            where = urlsplit(running.endpoint)
            return clients.enter_context(socket.create_connection((where.hostname, where.port)))

        with proxied(f"http://127.0.0.1:{deaf.getsockname()[1]}") as running:
            half = client()
            half.settimeout(0.5)
            half.sendall(b"PUT /k HTTP/1.1\r\nContent-Length: 100000000\r\n\r\n")
            with suppress(TimeoutError):  # everything between is full
                half.sendall(bytes(100_000_000))
            for _ in range(20):
                client()
    # A connection that was left open is a warning once it is collected, and so an error.
    gc.collect()
