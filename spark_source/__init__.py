"""Spark on logstore: `format("logstore")`, a source that reads the log's objects, and a sink.

    from spark_source import LagListener, configure, create_view, latest, read_topic
    from spark_source import table, write_topic

Spark finds the format without an import of this; these are for convenience.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_source.lag import LagListener, PartitionLag
    from spark_source.last_of_keys import latest
    from spark_source.reading import read_topic
    from spark_source.relation import create_view, table
    from spark_source.settings import advice, configure
    from spark_source.writing import write_topic

__all__ = [
    "LagListener",
    "PartitionLag",
    "advice",
    "configure",
    "create_view",
    "latest",
    "read_topic",
    "table",
    "write_topic",
]

_HOMES = {
    "LagListener": "lag",
    "PartitionLag": "lag",
    "advice": "settings",
    "configure": "settings",
    "create_view": "relation",
    "latest": "last_of_keys",
    "read_topic": "reading",
    "table": "relation",
    "write_topic": "writing",
}


def __getattr__(name: str) -> Any:
    """Found when first asked for: whenever Spark looks for sources, it imports this package."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
