"""A streaming log that speaks Kafka's protocol and lives in object storage, read as Arrow.

    import logstore

    with logstore.open("./data") as log:                 # or s3://BUCKET/PREFIX
        print(log.topics())
        reader = log.read("orders", columns=["offset", "value"])
        reader.read_pandas()

`open` gives a `LogView`; the rest are the errors, of which `LogstoreError` is the base.
Everything is imported when it is first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from logstore.errors import Corrupt as Corrupt
    from logstore.errors import Denied as Denied
    from logstore.errors import Invalid as Invalid
    from logstore.errors import LogstoreError as LogstoreError
    from logstore.errors import NotFound as NotFound
    from logstore.errors import OutcomeUnknown as OutcomeUnknown
    from logstore.errors import Refused as Refused
    from logstore.errors import Retryable as Retryable
    from logstore.errors import Throttled as Throttled
    from logstore.errors import Unavailable as Unavailable
    from logstore.front import LogView as LogView
    from logstore.front import open_view as open
    from logstore.reading.planning.extents import TopicExtent as TopicExtent

    __version__: str

DISTRIBUTION = "pyspark-logstore"

_MODULES = {
    "Corrupt": "logstore.errors",
    "Denied": "logstore.errors",
    "Invalid": "logstore.errors",
    "LogstoreError": "logstore.errors",
    "NotFound": "logstore.errors",
    "OutcomeUnknown": "logstore.errors",
    "Refused": "logstore.errors",
    "Retryable": "logstore.errors",
    "Throttled": "logstore.errors",
    "Unavailable": "logstore.errors",
    "LogView": "logstore.front",
    "TopicExtent": "logstore.reading.planning.extents",
    "open": "logstore.front",
}
_SPELT = {"open": "open_view"}

__all__ = [
    "Corrupt",
    "Denied",
    "Invalid",
    "LogView",
    "LogstoreError",
    "NotFound",
    "OutcomeUnknown",
    "Refused",
    "Retryable",
    "Throttled",
    "TopicExtent",
    "Unavailable",
    "__version__",
    "open",
]


def __getattr__(name: str) -> Any:
    """A name of the front door, when it is first used."""
    if name == "__version__":
        value: Any = _version()
    elif name in _MODULES:
        from importlib import import_module

        value = getattr(import_module(_MODULES[name]), _SPELT.get(name, name))
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:  # a source tree that was never installed
        return "unknown"
