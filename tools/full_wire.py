"""The whole wire codec: every message in every version, both ways; for tests and benchmarks.

    from tools.full_wire import APIS, Connection

The committed half is used as it is. The other half, requests encoded and responses decoded in the
versions that our own client does not send, is generated from `kio` when an API is first needed, and
kept in a folder for all later processes: else each of them would import `kio` and generate again,
0.4 s of CPU time for one API, more than a second for many. The folder is named after what
generates, so a changed generator has one of its own; `make clean` removes them all. Both halves
have the message classes of `logstore.wire.messages`.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import py_compile
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from logstore.wire.framing import apis, client
from logstore.wire.primitives import Buffer

ROOT = Path(__file__).parent.parent
GENERATED = ROOT / "build/full_wire"


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
    module = apis.APIS[key].module
    file = _folder() / f"{module}.py"
    if not file.exists():
        _generate(key, file)
    spec = importlib.util.spec_from_file_location(f"generated.{module}", file)
    assert spec and spec.loader
    rest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rest)
    names = vars(rest).items()
    return {name: table for name, table in names if name.startswith(("DECODE_", "ENCODE_"))}


@cache
def _folder() -> Path:
    """Of modules that these sources and this version of `kio` generate."""
    digest = hashlib.blake2s(importlib.metadata.version("kio").encode(), digest_size=8)
    for source in sorted((*ROOT.glob("tools/wire_schema*.py"), ROOT / "tools/generate_wire.py")):
        digest.update(source.read_bytes())
    return GENERATED / digest.hexdigest()


def _generate(key: int, file: Path) -> None:
    """Write the module, and compile it also where Python is to write no bytecode."""
    from tools import generate_wire  # imports kio: 0.4 s

    api = next(api for api in generate_wire.APIS if api.key == key)
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    unfinished.write_text(generate_wire.rest(api), encoding="utf-8")
    unfinished.replace(file)  # another process or thread may be at it too
    py_compile.compile(str(file), doraise=True)


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
