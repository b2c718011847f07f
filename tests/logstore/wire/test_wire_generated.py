"""The committed messages are what the generator writes, what is needed, and cheap to import."""

import subprocess
import sys
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from logstore.wire.errors import ErrorCode
from logstore.wire.framing.apis import APIS, Api
from tools import full_wire

ROOT = Path(__file__).parents[3]
MESSAGES = ROOT / "logstore" / "wire" / "messages"


@pytest.mark.slow
def test_regenerating_gives_the_committed_files_byte_for_byte(tmp_path: Path) -> None:
    generator = [sys.executable, "-m", "tools.generate_wire", "--output", str(tmp_path)]
    subprocess.run(generator, check=True, timeout=50, cwd=ROOT)
    committed = {p.name: p.read_bytes() for p in MESSAGES.glob("*.py") if p.stat().st_size}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == committed


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_the_tree_holds_what_brokers_and_our_own_client_need_and_no_more(api: Api) -> None:
    served = list(range(api.version_min, api.version_max + 1))
    assert list(api.table("DECODE_REQUEST")) == list(api.table("ENCODE_RESPONSE")) == served
    sent = list(api.versions_sent)
    assert list(api.table("ENCODE_REQUEST")) == list(api.table("DECODE_RESPONSE")) == sent
    full = full_wire.APIS[api.key]
    assert sorted(full.table("ENCODE_REQUEST")) == sorted(full.table("DECODE_RESPONSE")) == served


def test_the_codec_runs_without_kio_and_imports_messages_only_when_used() -> None:
    program = (
        "import sys; sys.modules['kio'] = None\n"
        "from logstore.wire.framing.apis import APIS\n"
        "import logstore.wire.errors\n"
        "loaded = lambda: {m for m in sys.modules if m.startswith('logstore.wire.messages.')}\n"
        "assert loaded() == {'logstore.wire.messages.index'}, loaded()\n"
        "APIS[18].decode_request(0, b'')\n"
        "assert len(loaded()) == 2, loaded()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, cwd=ROOT)


def test_error_codes_are_apaches_by_number_name_and_retriability() -> None:
    theirs = {int(code): (code.name.upper(), code.retriable) for code in KioErrorCode}
    assert {int(code): (code.name, code.retriable) for code in ErrorCode} == theirs
    assert set(theirs) == set(range(-1, 134))
