"""Runs pytest in processes forked with its libraries loaded: half of a short run is imports.

A line of stdin is a run, as JSON: `arguments` of pytest, its whole `environment`, the file `output`
and `timeout_s`. The answer is a line of JSON: `code`, the exit code, or `null` where the run was
killed after that time, and `cpu_s`, what the run and its children used. Nothing of the tree that is
tested is imported here, so each run has its files as they are. The process ends with its stdin.
"""

import gc
import importlib
import importlib.util
import json
import os
import signal
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

# What most tests import. Threads that some of them start (OpenBLAS, jemalloc) are theirs to start
# again after a fork.
LIBRARIES = (
    "_hypothesis_pytestplugin", "asyncio", "concurrent.futures.thread", "hypothesis.stateful",
    "pyarrow.compute", "pyarrow.parquet", "pytest", "pytest_timeout", "sqlite3",
    "xdist.plugin", "xml.etree.ElementTree",
)  # fmt: skip


def main() -> int:
    for name in LIBRARIES:
        if importlib.util.find_spec(name.partition(".")[0]):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a child leaves the memory that it shares alone
    for line in sys.stdin:
        run = json.loads(line)
        child = fork()
        if not child:
            return run_pytest(run["arguments"], run["environment"], Path(run["output"]))
        print(json.dumps(ended(child, run["timeout_s"])), flush=True)
    return 0


def fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 and later warn where there are threads
        return os.fork()


def run_pytest(arguments: Sequence[str], environment: Mapping[str, str], output: Path) -> int:
    """In the child: the exit code, with which it ends as any interpreter does."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for here, there in ((nothing, 0), (written, 1), (written, 2)):
        os.dup2(here, there)
    os.environ.clear()
    os.environ.update(environment)
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    sys.argv = ["pytest", *arguments]
    # pytest rewrites the assertions of plugins that it loads itself, and warns of these.
    loaded = "-Wignore::pytest.PytestAssertRewriteWarning"
    return int(sys.modules["pytest"].main([loaded, *arguments]))


def ended(child: int, timeout_s: int) -> dict[str, float | None]:
    """The exit code of the child, which is killed after the time, and its CPU seconds."""
    killed = False

    def kill(*_: object) -> None:
        nonlocal killed
        killed = True
        os.kill(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, kill)
    signal.alarm(timeout_s)
    _, status, used = os.wait4(child, 0)
    signal.alarm(0)
    code = None if killed else os.waitstatus_to_exitcode(status)
    return {"code": code, "cpu_s": used.ru_utime + used.ru_stime}


if __name__ == "__main__":
    sys.exit(main())
