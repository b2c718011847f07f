#!/usr/bin/env bash
# Sets up .venv on a fresh machine: a Python, uv, what requirements.lock names, and this project.
# `bootstrap.sh lock` resolves the lock files again; pins stay unless `--upgrade` is given.
#
# Needs Python 3.11 or newer and a package index; no home directory, no cache. A C compiler, where
# there is one, builds the native codec. PYTHON names another interpreter. uv takes its index from
# the environment; settings for pip there count for it too. Two set-ups at once wait for each other.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly STAMP=.venv/.stamp
readonly BUILD_LOCK=requirements-build.lock  # uv, and the back end that builds this project
readonly SBOM_LOCK=requirements-sbom.lock    # the Dockerfile's: it lists the packages of an image

main() {
  local python uv
  take_turns
  case "${1:-venv}" in
    venv) if ! up_to_date; then find_tools; set_up; fi ;;
    lock) find_tools; shift; lock "$@" ;;
    *) stop "usage: bootstrap.sh [lock [--upgrade]]" ;;
  esac
}

find_tools() {
  python=$(find_python)
  echo "set-up: $("$python" --version) at $python" >&2
  index_settings
  uv=$(find_uv "$python")
}

set_up() {
  if ! usable .venv/bin/python; then
    "$uv" venv --quiet --clear --no-python-downloads --python "$python" .venv
  fi
  local quiet=()
  [ -t 2 ] || quiet=(--quiet)  # progress is for people
  echo "set-up: installing requirements.lock, 1.3 GB unpacked" >&2
  "$uv" pip sync "${quiet[@]}" --python .venv/bin/python --require-hashes requirements.lock
  rm -f logstore/records/native/*.so  # an existing one may be of other sources
  "$uv" pip install --quiet --python .venv/bin/python --no-deps \
    --build-constraints "$BUILD_LOCK" --editable .
  .venv/bin/python -c 'from logstore.records.native import codec; raise SystemExit(not codec)' ||
    echo "set-up: the native codec is not built (no C compiler, or no Python.h): Python does it" >&2
  touch "$STAMP"
  echo "set-up: done in $SECONDS s" >&2
}

lock() {
  local compile=("$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes
    --no-emit-index-url --custom-compile-command "make lock")
  "${compile[@]}" "$@" --all-extras --group demo --group test pyproject.toml \
    --output-file requirements.lock
  printf 'setuptools>=77\nuv\n' |
    "${compile[@]}" "$@" --no-annotate - --output-file "$BUILD_LOCK"
  echo cyclonedx-bom |
    "${compile[@]}" "$@" --no-annotate - --output-file "$SBOM_LOCK"
}

take_turns() {
  if command -v flock >/dev/null; then
    exec 9>.bootstrap.lock
    flock 9
  fi
}

up_to_date() {
  [ -f "$STAMP" ] && [ "$STAMP" -nt requirements.lock ] && [ "$STAMP" -nt pyproject.toml ] &&
    [ "$STAMP" -nt "$BUILD_LOCK" ] && [ "$STAMP" -nt setup.py ] && usable .venv/bin/python &&
    [ -z "$(find logstore/records/native -name '*.[ch]' -newer "$STAMP")" ]
}

# Runs it, since a version manager's shim may be on PATH without a Python behind it.
usable() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
  local name
  for name in "${PYTHON:-python3.11}" python3.11 python3.12 python3.13 python3.14 python3 python; do
    if usable "$name"; then
      # The interpreter itself: a shim may lead elsewhere from another folder.
      "$name" -c 'import sys; print(sys.executable)'
      return
    fi
  done
  stop "no Python 3.11 or newer found: install one (Debian, Ubuntu: apt-get install python3.11" \
    "python3.11-venv) or name one: make venv PYTHON=/path/to/python3"
}

index_settings() {
  if [ -z "${UV_DEFAULT_INDEX:-}${UV_INDEX_URL:-}" ] && [ -n "${PIP_INDEX_URL:-}" ]; then
    export UV_DEFAULT_INDEX=$PIP_INDEX_URL
  fi
  if [ -z "${UV_INDEX:-}${UV_EXTRA_INDEX_URL:-}" ] && [ -n "${PIP_EXTRA_INDEX_URL:-}" ]; then
    export UV_INDEX=$PIP_EXTRA_INDEX_URL
  fi
  if [ -z "${SSL_CERT_FILE:-}" ] && [ -n "${PIP_CERT:-}" ]; then
    export SSL_CERT_FILE=$PIP_CERT
  fi
}

# An existing uv, else the locked one in .uv/: in a venv of its own, or, where Python came without
# ensurepip, in a plain folder by pip.
find_uv() {
  local uv python=$1
  for uv in "${UV:-uv}" .uv/bin/uv .uv/lib/bin/uv; do
    if "$uv" --version >/dev/null 2>&1; then
      echo "$uv"
      return
    fi
  done
  export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
  local pip_install=(-m pip install --quiet --require-hashes --no-deps)
  if "$python" -m venv --clear .uv >/dev/null 2>&1; then
    .uv/bin/python "${pip_install[@]}" --requirement "$BUILD_LOCK" >&2
    echo .uv/bin/uv
  elif "$python" -m pip --version >/dev/null 2>&1; then
    "$python" "${pip_install[@]}" --target .uv/lib --requirement "$BUILD_LOCK" >&2
    echo .uv/lib/bin/uv
  else
    stop "$python has neither ensurepip nor pip: install them (Debian, Ubuntu: apt-get install" \
      "python3-venv) or install uv, then run this again"
  fi
}

stop() {
  echo "set-up: $*" >&2
  exit 1
}

main "$@"
