"""Finds product code that only tests use: `python -m tools.unused` prints it, one name a line.

Looked at are functions, classes and constants of modules, and methods. A name counts as used if
another module of the product imports it or its own module reads it; a method, if any attribute of
that name is read in the product. So a method that shares its name with a used one is not found.
Reads by `logstore.testing` do not count: it is the test kit that we ship.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tools.tree import tree_files

ROOT = Path(__file__).parent.parent
PRODUCT = ("logstore", "broker", "spark_source", "pyspark_logstore")
GENERATED = "logstore/wire/messages/"
TEST_KIT = "logstore/testing/"


def main() -> None:
    for name in unused(ROOT):
        print(name)


def unused(root: Path) -> list[str]:
    """`module.name` or `module.Class.method` of all that nothing of the product uses."""
    trees = {
        _module(path): (path.as_posix(), ast.parse((root / path).read_text("utf-8")))
        for path in tree_files(root)
        if path.suffix == ".py" and path.parts[0] in PRODUCT
        if not path.as_posix().startswith(TEST_KIT)
    }
    outside = set(re.findall(r"[\w.]+:(\w+)\"", (root / "pyproject.toml").read_text("utf-8")))
    names: Counter[tuple[str, str]] = Counter()
    attributes: Counter[str] = Counter()
    for module, (_, tree) in trees.items():
        _count(module, tree, names, attributes)
    return sorted(
        found
        for module, (path, tree) in trees.items()
        if not path.startswith(GENERATED)
        for found in _unused_of(module, tree, names, attributes)
        if found.rpartition(".")[2] not in outside
    )


def _module(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _count(
    module: str, tree: ast.Module, names: Counter[tuple[str, str]], attributes: Counter[str]
) -> None:
    """Add what `module` reads: names by defining module, and attributes."""
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names[node.module, alias.name] += 1
                imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            attributes[node.attr] += 1
            if isinstance(node.value, ast.Name) and node.value.id in imported:
                names[imported[node.value.id], node.attr] += 1
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names[module, node.id] += 1
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            for word in re.findall(r"\w+", node.value[:200]):  # names in annotations and __all__
                names[module, word] += 1


def _unused_of(
    module: str, tree: ast.Module, names: Counter[tuple[str, str]], attributes: Counter[str]
) -> Iterator[str]:
    for node in tree.body:
        for name in _defined(node):
            if not names[module, name] and not name.startswith("__"):
                yield f"{module}.{name}"
        if isinstance(node, ast.ClassDef) and not _is_called_by_others(node):
            for method in node.body:
                if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                    continue
                if not method.name.startswith("__") and not attributes[method.name]:
                    yield f"{module}.{node.name}.{method.name}"


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _is_called_by_others(node: ast.ClassDef) -> bool:
    """Whether a library calls its methods: asyncio, Spark, pyarrow's files; or it is a port."""
    bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    return bool(bases & CALLED_BY_OTHERS)


CALLED_BY_OTHERS = {
    "BufferedProtocol",
    "DataSource",
    "DataSourceStreamReader",
    "Protocol",
    "RawIOBase",
    "StreamingQueryListener",
}


if __name__ == "__main__":
    main()
