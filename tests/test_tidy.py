"""House rules no linter knows. Raise a limit only with a reason in the commit."""

import ast
import io
import os
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tools.tree import tree_files

ROOT = Path(__file__).parent.parent
HERE = Path("tests/test_tidy.py")
PACKAGES = ("logstore", "broker", "spark_source", "pyspark_logstore")
GENERATED = "logstore/wire/messages/"
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
NOT_NAMES = {"utils", "helpers", "common", "managers", "base", "util", "helper", "manager", "misc"}
DOCUMENT_LINE_MAX = 120
HEAVY = ("pyarrow", "pyspark", "pandas", "boto3", "obstore", "deltalake", "asyncio")

# Why a test may be skipped: the exact reason it gives, and when that is right.
SKIP_REASONS = {
    "DynamoDB Local needs Java 17 and Maven": "AWS's emulator is a Java program, fetched by Maven",
    "this Python collects in small steps by itself": "collections are asked for before 3.14 alone",
    "only Linux says that a peer has closed its side": "elsewhere it is noticed by reading",
    "no unnamed files here": "what is tested is O_TMPFILE and linkat, which Linux alone has",
    "no mount namespace may be made here": "a full disk is a small tmpfs, which needs the right",
    "versitygw needs Go, once": "a real S3 server beside moto; it is built from source",
    "Spark's Kafka source and Apache Kafka need Maven, once": "what ours is held against is Java",
    "Apache Kafka's tools need Java 17 and Maven, once": "they are Java programs, fetched by Maven",
    "Kafka Connect and Streams need Java 17 and Maven, once": "so are these",
    "clients in Go and for Node need these and their registries, once": "they are programs of "
    "languages that not every machine has",
    "Delta's jars need Maven, once": "a machine without Maven has no way to them",
    "Spark Connect needs a package index, once": "its client's packages are not ours to install",
    "a bucket needs versitygw and DynamoDB Local": "their own tests say what they need",
    "the release before needs a checkout with its commit": "its source is unpacked from git",
    "the compiler has no sanitizers here": "their libraries come with gcc, not with every one",
    "the native codec is not built here": "it needs a C compiler; its twin in Python is tested",
    "Terraform and a mirror of its AWS provider are not here": "a provider is 700 MB, and its "
    "registry is reached from few machines",
    "helm needs Go, once": "it renders the chart; it is built from source",
    "cyclonedx-py needs a package index, once": "it runs in the image's first stage alone",
    "checkov needs a package index, once": "a tool with some hundred packages of its own",
    "kubernetes-validate needs a package index, once": "schemas of Kubernetes, a tool of its own",
    "an image needs root, and Debian's buildah and debootstrap": "built by make image alone, in a "
    "chroot",
    "promtool needs Debian's packages, once": "Prometheus is a Go program, unpacked from its .deb",
    "a browser needs Debian's packages and npm's, once": "Chromium, unpacked from its .deb",
    "packages of Debian need apt-get and dpkg-deb": "what is tested is how they are fetched",
    "ministack needs a package index, once": "a second S3 emulator beside moto",
}

UNTOLD = {
    "a path of one machine": r"/work/|/root/|/home/\w+/|(?<![\w.-])/Users/\w+/",
    "a registry's host": r"pypi\.org/simple|maven2|https?://\S+/simple\b",
    "how the project is developed": r"(?<![\w/.-])shared/|\bissue #?\d+",
}
# Words of a private English: say which broker, which process, which moment.
UNCLEAR = r"\b(?:anew|meanwhile|[Ss]omebody|[Nn]obody|[Ww]hoever|[Tt]old|for sure)\b"
NOUNS_FIRST = (*PACKAGES, "tools", "benchmarks", "examples")
"""Folders whose docstrings do not begin with a free relative; a clean one is added."""
NAMES_IN_TEXT = re.compile(r"`[^`\n]*`|\{[^{}\n]*\}")
"""Names in texts, of variables too, are what they are."""

UNFINISHED = r"\b(?:TODO|FIXME|XXX)\b|\braise NotImplementedError\b"
MENTIONED = re.compile(
    rf"\b(?:{'|'.join(PACKAGES)}|tests|tools|docs|infra|benchmarks)/[\w./-]*\w/?"
)


@cache
def files() -> tuple[Path, ...]:
    return tuple(tree_files(ROOT))


@cache
def text_of(path: Path) -> str:
    data = (ROOT / path).read_bytes()
    return "" if b"\0" in data else data.decode()


def sources() -> list[Path]:
    return [path for path in files() if path.suffix == ".py" and GENERATED not in str(path)]


def documents() -> list[Path]:
    return [path for path in files() if path.suffix == ".md"]


def test_every_source_file_says_what_it_is_and_fits_its_limits() -> None:
    assert not [complaint for path in sources() for complaint in misfits(path)]


def misfits(path: Path) -> Iterator[str]:
    text = text_of(path)
    tree = ast.parse(text)
    if (lines := len(text.splitlines())) > FILE_LINES_MAX:
        yield f"{path} has {lines} lines"
    if tree.body and not ast.get_docstring(tree):
        yield f"{path}: say what lives here"
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{path}: {node.name} has {lines} lines"


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Without the expressions in them, which are most of a tree."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.expr):
            yield node
            yield from statements(node)


def test_a_class_name_is_unique_in_the_product() -> None:
    """Generated messages aside: their names are Kafka's, one set for each API."""
    places: dict[str, list[str]] = {}
    for path in sources():
        if path.parts[0] in PACKAGES:
            for number, line in enumerate(text_of(path).splitlines(), 1):
                if found := re.match(r"\s*class (\w+)\b.*[:(]$|\s*class (\w+)\(", line):
                    places.setdefault(found[1] or found[2], []).append(f"{path}:{number}")

    assert {name: lines for name, lines in places.items() if len(lines) > 1} == {}


def test_no_file_is_named_for_what_does_not_belong_anywhere() -> None:
    assert not [path for path in sources() if NOT_NAMES.intersection([*path.parts, path.stem])]


@pytest.mark.parametrize("what", UNTOLD)
def test_no_file_tells(what: str) -> None:
    assert not list(hits(UNTOLD[what], re.IGNORECASE)), f"these lines tell {what}"


def test_text_is_plain_technical_english() -> None:
    assert not [
        f"{path}:{number}: {line.strip()}"
        for path in files()
        if path != HERE and re.search(UNCLEAR, text_of(path))
        for number, line in words_of(path)
        if re.search(UNCLEAR, NAMES_IN_TEXT.sub("", line))
    ]


def test_identifiers_are_plain_technical_english() -> None:
    unclear = re.compile(UNCLEAR, re.IGNORECASE)
    assert not [
        f"{path}:{number}: {name}"
        for path in sources()
        if unclear.search(text_of(path).replace("_", " "))
        for number, name in names_of(path)
        if unclear.search(name.replace("_", " "))
    ]


def names_of(path: Path) -> Iterator[tuple[int, str]]:
    """Identifiers of a program, each with its line."""
    for token in tokenize.generate_tokens(io.StringIO(text_of(path)).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string


def words_of(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of a text; of a program the lines of its strings and comments, identifiers aside."""
    text = text_of(path)
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield from enumerate(token.string.splitlines(), token.start[0])


def test_a_docstring_begins_with_a_noun_or_a_verb() -> None:
    assert not [
        f"{path}: {found.group()} …"
        for path in sources()
        if path.parts[0] in NOUNS_FIRST
        for found in re.finditer(r'"""(?:What|Who)(?:ever)? \w+', text_of(path))
    ]


def test_what_says_that_it_is_pure_is_held_to_it_by_a_contract() -> None:
    """The contracts with forbidden modules like `asyncio`, in pyproject.toml."""
    contracts = tomllib.loads(text_of(Path("pyproject.toml")))["tool"]["importlinter"]["contracts"]
    held = [
        module.replace(".", "/")
        for contract in contracts
        if "asyncio" in contract.get("forbidden_modules", ())
        for module in contract["source_modules"]
    ]

    assert not [
        str(path)
        for path in sources()
        if path.parts[0] in PACKAGES and re.search(r"\bPure\.", _docstring_of(path))
        if not any(f"{path.with_suffix('')}/".startswith(f"{module}/") for module in held)
    ]


def _docstring_of(path: Path) -> str:
    return (ast.get_docstring(ast.parse(text_of(path))) or "") if text_of(path) else ""


def test_nothing_is_left_unfinished() -> None:
    assert not list(hits(UNFINISHED))


def hits(pattern: str, flags: int = 0) -> Iterator[str]:
    for path in files():
        if path == HERE or path.name.endswith(".lock"):
            continue
        text = text_of(path)
        for found in re.finditer(pattern, text, flags):
            yield f"{path}:{text.count(chr(10), 0, found.start()) + 1}: {found.group()}"


def test_every_skip_gives_a_registered_reason() -> None:
    unregistered = [
        f"{path}:{line}: {reason}"
        for path in sources()
        if path.parts[0] == "tests" and re.search("skip|xfail", text_of(path))
        for line, reason in skips(ast.parse(text_of(path)))
        if reason not in SKIP_REASONS
    ]
    assert not unregistered


def skips(tree: ast.AST) -> Iterator[tuple[int, object]]:
    """Line and reason of every call of, or bare mark of, pytest's ways to skip."""
    called: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _skips(node.func):
            called.add(node.func)
            named = [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
            given = [said.value for said in named or node.args if isinstance(said, ast.Constant)]
            yield node.lineno, given[0] if given else None
        elif _skips(node) and node not in called:
            yield getattr(node, "lineno", 0), None


def _skips(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr in ("skip", "skipif", "importorskip", "skipTest", "xfail")
        and "pytest" in ast.unparse(node)
    )


def test_lines_of_documents_fit_a_screen() -> None:
    assert not [
        f"{document}:{number}: {len(line)} characters"
        for document in documents()
        for number, line in enumerate(text_of(document).splitlines(), 1)
        if len(line) > DOCUMENT_LINE_MAX and not line.lstrip().startswith("|")  # a table's row
    ]


def test_every_relative_link_leads_somewhere() -> None:
    assert not [f"{document}: {link}" for document in documents() for link in lost_links(document)]


def lost_links(document: Path) -> list[str]:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text_of(document), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)\s#]+)", prose)
    folder = (ROOT / document).parent
    local = [target for target in targets if not re.match(r"\w+:", target)]
    return [target for target in local if not (folder / target).exists()]


def test_every_file_that_a_document_names_exists() -> None:
    assert not [
        f"{document}: {name}"
        for document in documents()
        if document.parts[0] == "docs"
        for name in sorted(set(MENTIONED.findall(text_of(document))))
        if not _exists(name)
    ]


def _exists(name: str) -> bool:
    return (ROOT / name).exists() or (ROOT / f"{name}.py").is_file()


def test_importing_logstore_loads_nothing_heavy() -> None:
    program = f"import logstore, sys; print([n for n in {HEAVY} if n in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )

    assert answer.stdout.strip() == "[]"
