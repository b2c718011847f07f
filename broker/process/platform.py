"""Address and zone of this process by the platform it runs on: `--advertise auto`, `--rack auto`.

    Kubernetes  POD_IP and POD_ZONE, which the pod's spec sets by the downward API
    ECS         task metadata at ECS_CONTAINER_METADATA_URI_V4
    EC2         instance metadata (IMDSv2), at AWS_EC2_METADATA_SERVICE_ENDPOINT if that is set

The first that applies is asked, once, with a time limit. In a pod without POD_IP no other is asked
for the address: theirs would be the node's.
"""

import json
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from broker.network.listeners import DEFAULT_NAME, parse_address
from logstore.config.flags import AUTO, DEFAULT_LISTEN
from logstore.errors import Invalid, Refused

EC2_ENDPOINT = "http://169.254.169.254"
TIMEOUT_S = 2.0
ANSWER_BYTES_MAX = 1 << 20
TOKEN_S = 60


class Platform:
    def __init__(self, environment: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> None:
        self._environment = environment
        self._timeout_s = timeout_s

    def zone(self) -> str:
        """Availability zone. Raises `Refused`."""
        if zone := self._environment.get("POD_ZONE"):
            return zone
        try:
            if self._ecs:
                return _text(self._json(f"{self._ecs}/task")["AvailabilityZone"])
            return self._ec2("placement/availability-zone")
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise Refused(
                f"--rack auto: no metadata of ECS or EC2 here, and POD_ZONE is not set: {error}; "
                "give --rack ZONE"
            ) from error

    def address(self) -> str:
        """IP address that other machines of the network reach. Raises `Refused`."""
        if address := self._environment.get("POD_IP"):
            return address
        if "KUBERNETES_SERVICE_HOST" in self._environment:
            raise Refused(
                "--advertise auto: POD_IP is not set; set it in the pod's spec from "
                "fieldRef status.podIP"
            )
        try:
            if self._ecs:
                return _text(self._json(self._ecs)["Networks"][0]["IPv4Addresses"][0])
            return self._ec2("local-ipv4")
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise Refused(
                f"--advertise auto: no metadata of ECS or EC2 here, and POD_IP is not set: {error};"
                " give --advertise HOST:PORT"
            ) from error

    @property
    def _ecs(self) -> str:
        return self._environment.get("ECS_CONTAINER_METADATA_URI_V4", "")

    def _json(self, url: str) -> Any:
        return json.loads(self._ask(url))

    def _ec2(self, path: str) -> str:
        if self._environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
            raise ValueError("AWS_EC2_METADATA_DISABLED is true")
        endpoint = self._environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or EC2_ENDPOINT
        url = f"{endpoint.rstrip('/')}/latest"
        lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_S)}
        token = self._ask(f"{url}/api/token", "PUT", lifetime)
        return _text(
            self._ask(f"{url}/meta-data/{path}", "GET", {"X-aws-ec2-metadata-token": token})
        )

    def _ask(self, url: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> str:
        if not url.startswith("http://"):
            raise ValueError(f"not an http address: {url}")
        request = urllib.request.Request(url, method=method, headers=dict(headers or {}))
        # Metadata is never behind a proxy.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=self._timeout_s) as answer:
            return str(answer.read(ANSWER_BYTES_MAX).decode())


def resolve_rack(rack: str, platform: Platform) -> str:
    """Raises `Refused`."""
    return platform.zone() if rack == AUTO else rack


def resolve_advertised(
    advertise: Sequence[str], listen: Sequence[str], platform: Platform
) -> list[str]:
    """Each `[NAME://]auto[:PORT]` with the address, and with its listener's port where none is
    given. Raises `Invalid`, `Refused`."""
    resolved = []
    for text in advertise:
        name, scheme, place = text.rpartition("://")
        host, _, port = place.partition(":")
        if host != AUTO:
            resolved.append(text)
            continue
        address = platform.address()
        shown = f"[{address}]" if ":" in address else address
        resolved.append(f"{name}{scheme}{shown}:{port or _port_of(name, listen)}")
    return resolved


def _port_of(name: str, listen: Sequence[str]) -> int:
    places = [parse_address(text) for text in listen or (DEFAULT_LISTEN,)]
    ports = [place.port for place in places if place.name == (name.upper() or DEFAULT_NAME)]
    if len(places) == 1:
        ports = [places[0].port]
    if len(ports) != 1 or ports[0] == 0:
        raise Invalid("--advertise auto: which port is not clear; give --advertise auto:PORT")
    return ports[0]


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"not a text: {value!r}")
    return value.strip()
