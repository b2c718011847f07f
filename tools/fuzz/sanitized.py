"""Builds the native codec with the compiler's sanitizers, and the environment it runs in."""

import os
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

MODULE = "logstore.records.native._codec"
SOURCES = Path("logstore/records/native")
BUILT = Path("build/fuzz/_codec.so")

_FLAGS = ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fPIC")
_STRICT = ("-fno-sanitize-recover=all", "-Wall", "-Wextra", "-Werror", "-shared")


def build() -> str | None:
    """Why it cannot be built here, or None."""
    BUILT.parent.mkdir(parents=True, exist_ok=True)
    include = f"-I{sysconfig.get_paths()['include']}"
    sources = sorted(map(str, SOURCES.glob("*.c")))
    command = [*_compiler(), *_FLAGS, *_STRICT, include, *sources, "-o", str(BUILT)]
    try:
        answer = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return f"no compiler: {command[0]}"
    return answer.stderr.strip() or f"{command[0]} failed" if answer.returncode else None


def environment() -> Mapping[str, str]:
    """The sanitizers' library must be loaded first; C++'s too, since Arrow throws."""
    preloaded = (_library("libasan.so"), _library("libstdc++.so"))
    return {
        **os.environ,
        "LD_PRELOAD": " ".join(preloaded),
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter's own
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",  # so that each object has its own red zone
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }


def load(path: str) -> None:
    """That build of the codec instead of the installed one. Before `logstore.records.native` is."""
    loader = ExtensionFileLoader(MODULE, path)
    specification = spec_from_file_location(MODULE, path, loader=loader)
    assert specification is not None
    module = module_from_spec(specification)
    loader.exec_module(module)
    sys.modules[MODULE] = module


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")


def _library(name: str) -> str:
    command = [*_compiler(), f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
