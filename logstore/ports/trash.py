"""The trash port: deleted objects that a store still has, and how to take one back.

A directory keeps deleted objects for a day (`objects.directory`), a bucket with versions for as
long as its lifecycle rule says (`objects.s3_versions`), memory for a day (`objects.memory`). A
bucket without versions has no trash.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

KEPT_HOURS = 24
"""Hours that a directory keeps deleted objects, and the minimum for a bucket."""


@dataclass(frozen=True, slots=True)
class DeletedObject:
    """One deleted object. A key that was created and deleted twice has two."""

    key: str
    size_bytes: int
    modified_ms: int
    """When it was created."""
    deleted_ms: int
    """Not before this, and within the hour."""
    place: str
    """Where the store keeps it; means nothing to others."""


class Trash(Protocol):
    """Blocking, for tools. Raises what the object store raises."""

    def deleted(self, prefix: str) -> Iterator[DeletedObject]:
        """Deleted objects with `prefix`, by key, those created first before others.

        A key that an object has now is left out.
        """
        ...

    def undelete(self, deleted: DeletedObject) -> bool:
        """Creates it again, with the same bytes; durable when it returns.

        False: an object has the key, nothing was done. Raises `NotFound`: it is no longer kept.
        """
        ...
