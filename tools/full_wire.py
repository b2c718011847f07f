"""The whole wire codec: every message in every version, both ways; for tests and benchmarks.

    from tools.full_wire import APIS, Connection

The committed half is used as it is. The other half, requests encoded and responses decoded in the
versions that our own client does not send, is generated from `kio` and compiled when an API first
needs it (about 0.1 s each). Both halves have the message classes of `logstore.wire.messages`.
"""

import linecache
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from logstore.wire.framing import apis, client
from logstore.wire.primitives import Buffer


class Api(apis.Api):
    """All versions in all four directions."""

    def table(self, name: str) -> Mapping[int, Any]:
        committed = super().table(name)
        return {**committed, **_rest(self.key).get(name, {})}

    def encode_request(self, version: int, request: Any, parts: list[Buffer]) -> None:
        """Append the buffers of `request`, without a header, to `parts`."""
        whole = b"".join(apis.encode_request_frame(0, self, version, None, request))
        _, _, _, _, at = apis.decode_request_header(memoryview(whole)[4:])
        parts.append(whole[4 + at :])


@cache
def _rest(key: int) -> Mapping[str, Mapping[int, Any]]:
    """Tables by name."""
    from tools import generate_wire  # imports kio: 0.4 s

    api = next(api for api in generate_wire.APIS if api.key == key)
    text, file = generate_wire.rest(api), f"<generated {api.module}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": f"generated.{api.module}"}
    exec(compile(text, file, "exec"), names)
    return {name: table for name, table in names.items() if name.startswith(("DECODE_", "ENCODE_"))}


def _complete(api: apis.Api) -> Api:
    versions = range(api.version_min, api.version_max + 1)
    return Api(
        api.key, api.module, api.name, versions[0], versions[-1], api.flexible_from, versions
    )


APIS: Final[dict[int, Api]] = {key: _complete(api) for key, api in apis.APIS.items()}


class Connection(client.Connection):
    """Our client, sending any version: the newest common one unless the caller names one."""

    apis = APIS

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are, frame size included if there is to be one."""
        self._send([data], self._deadline())

    def read_frame(self) -> memoryview:
        """The next frame, without its size. Raises `OutcomeUnknown` if none comes in time."""
        return self._read_frame(self._deadline())
