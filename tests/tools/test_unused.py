"""Product code that only tests use is found, and there is none without a reason."""

from pathlib import Path

import pytest

from tools.unused import ROOT, unused

USED_ELSEWHERE = {
    "broker.http.decisions.catalogue.PROCESS": "metrics that prometheus_client adds: a test "
    "compares the list with what a broker answers",
    "broker.process.log_writer.LogWriter.emit": "`logging` calls it",
    "logstore.formats.partition_state.pack_producer": "the encoder beside its decoder: tests "
    "make any state",
    "logstore.objects.faulty.FaultyBlockingStore": "part of the test kit that we ship",
    "logstore.objects.faulty.FaultyStore": "part of the test kit that we ship",
    **{
        f"logstore.wire.{module}.{name}": "looked up by name, as in generated modules"
        for module in ("adopt", "read_feed")
        for name in ("DECODE_REQUEST", "DECODE_RESPONSE", "ENCODE_REQUEST", "ENCODE_RESPONSE")
    },
    "spark_source.source.NarrowedReader.pushFilters": "Spark calls it where its session lets it",
}


@pytest.mark.slow
def test_the_product_has_no_code_that_only_tests_use() -> None:
    found = unused(ROOT)

    assert found == sorted(USED_ELSEWHERE), "use it or delete it; or say here who uses it"


def test_a_function_a_constant_and_a_method_that_nothing_reads_are_found(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('entry = "logstore.one:main"\n')
    for name, text in {
        "logstore/one.py": "LEFT = 1\nUSED = 2\n\n\ndef main():\n    print(USED)\n",
        "logstore/two.py": "def call():\n    pass\n\n\nclass Two:\n"
        "    def read(self):\n        pass\n\n    def seen(self):\n        pass\n",
        "broker/three.py": "from logstore.two import Two\n\nTwo().seen()\n",
        "tests/test_two.py": "from logstore.two import call, Two\n\ncall()\nTwo().read()\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    assert unused(tmp_path) == ["logstore.one.LEFT", "logstore.two.Two.read", "logstore.two.call"]
