"""Where the platform says that a process runs: pods, ECS, EC2, and one error where none says it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from broker.process.platform import Platform, resolve_advertised, resolve_rack
from logstore.errors import Invalid, Refused

TASK = '{"AvailabilityZone": "eu-west-1b"}'
CONTAINER = '{"Networks": [{"NetworkMode": "awsvpc", "IPv4Addresses": ["10.0.2.106"]}]}'
EC2 = {
    "PUT /latest/api/token": "a token",
    "GET /latest/meta-data/local-ipv4": "10.0.1.9",
    "GET /latest/meta-data/placement/availability-zone": "eu-west-1a",
}


def platform_of(environment: Mapping[str, str]) -> Platform:
    """Waits for an answer however slow this machine is."""
    return Platform(environment, timeout_s=60.0)


@contextmanager
def metadata(answers: Mapping[str, str]) -> Iterator[str]:
    """A server that gives these answers, the EC2 ones only to requests that bear its token."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            text = answers.get(f"{self.command} {self.path}")
            needs_token = "/meta-data/" in self.path
            if needs_token and self.headers["X-aws-ec2-metadata-token"] != "a token":
                text = None
            self.send_response(200 if text else 401)
            self.end_headers()
            self.wfile.write((text or "").encode())

        do_GET = do_PUT = answer  # noqa: N815 - as the server calls them

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_pod_is_where_its_spec_says() -> None:
    platform = platform_of(
        {"POD_IP": "10.1.2.3", "POD_ZONE": "eu-1c", "KUBERNETES_SERVICE_HOST": "k"}
    )

    assert resolve_rack("auto", platform) == "eu-1c"
    assert resolve_advertised(["auto"], ["0.0.0.0:9092"], platform) == ["10.1.2.3:9092"]


def test_an_ecs_task_is_where_its_metadata_says() -> None:
    with metadata({"GET /v4/1/task": TASK, "GET /v4/1": CONTAINER}) as url:
        platform = platform_of({"ECS_CONTAINER_METADATA_URI_V4": f"{url}/v4/1"})

        assert (platform.zone(), platform.address()) == ("eu-west-1b", "10.0.2.106")


def test_an_instance_is_where_its_metadata_says_to_requests_with_a_token() -> None:
    with metadata(EC2) as url:
        platform = platform_of({"AWS_EC2_METADATA_SERVICE_ENDPOINT": url})

        assert (platform.zone(), platform.address()) == ("eu-west-1a", "10.0.1.9")


@pytest.mark.parametrize(
    ("advertise", "listen", "resolved"),
    [
        (["auto"], [], ["10.1.2.3:9092"]),
        (["auto:99"], ["0.0.0.0:0"], ["10.1.2.3:99"]),
        (["B://auto", "A://h:7"], ["A://:1", "B://:2"], ["B://10.1.2.3:2", "A://h:7"]),
    ],
)
def test_an_address_has_the_port_of_its_listener_or_its_own(
    advertise: list[str], listen: list[str], resolved: list[str]
) -> None:
    assert resolve_advertised(advertise, listen, platform_of({"POD_IP": "10.1.2.3"})) == resolved


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    assert resolve_advertised(["auto"], [], platform_of({"POD_IP": "fd::1"})) == ["[fd::1]:9092"]


@pytest.mark.parametrize("listen", [["127.0.0.1:0"], ["A://:1", "B://:2"]])
def test_a_port_that_is_not_clear_is_asked_for(listen: list[str]) -> None:
    with pytest.raises(Invalid, match="give --advertise auto:PORT"):
        resolve_advertised(["auto"], listen, platform_of({"POD_IP": "10.1.2.3"}))


def test_a_pod_without_its_address_does_not_take_its_nodes() -> None:
    with metadata(EC2) as url:
        environment = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": url, "KUBERNETES_SERVICE_HOST": "k"}
        with pytest.raises(Refused, match=r"from fieldRef status\.podIP$"):
            platform_of(environment).address()


@pytest.mark.parametrize("answers", [{}, {"PUT /latest/api/token": "another"}])
def test_where_no_service_answers_the_error_says_what_to_give(answers: dict[str, str]) -> None:
    with metadata(answers) as url:
        platform = platform_of({"AWS_EC2_METADATA_SERVICE_ENDPOINT": url})
        with pytest.raises(Refused, match=r"--rack auto: no metadata .*; give --rack ZONE$"):
            platform.zone()
        with pytest.raises(Refused, match=r"; give --advertise HOST:PORT$"):
            platform.address()


def test_metadata_that_is_switched_off_is_not_asked_for() -> None:
    with pytest.raises(Refused, match="AWS_EC2_METADATA_DISABLED is true"):
        platform_of({"AWS_EC2_METADATA_DISABLED": "true"}).zone()
