"""The committed messages are what the generator writes, and cheap to import."""

import subprocess
import sys
from pathlib import Path

from kio.schema.errors import ErrorCode as KioErrorCode

from logstore.wire.errors import ErrorCode

ROOT = Path(__file__).parents[3]
MESSAGES = ROOT / "logstore" / "wire" / "messages"


def test_regenerating_gives_the_committed_files_byte_for_byte(tmp_path: Path) -> None:
    generator = [sys.executable, "-m", "tools.generate_wire", "--output", str(tmp_path)]
    subprocess.run(generator, check=True, timeout=50, cwd=ROOT)
    committed = {p.name: p.read_bytes() for p in MESSAGES.glob("*.py") if p.stat().st_size}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == committed


def test_the_codec_runs_without_kio_and_imports_messages_only_when_used() -> None:
    program = (
        "import sys; sys.modules['kio'] = None\n"
        "from logstore.wire.apis import APIS\n"
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
