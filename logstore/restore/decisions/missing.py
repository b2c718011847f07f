"""Errors of restore that say where objects are missing. Pure."""

from collections.abc import Sequence

from logstore.errors import Corrupt, LogstoreError, Refused
from logstore.formats.keys import chain_prefix, checkpoints_prefix

PUT_BACK = "put the files back from a copy, then run this again"


class MissingObjects(Corrupt):
    """Something is in store that needs other objects below `prefixes`, which are not there."""

    def __init__(self, message: str, prefixes: Sequence[str]) -> None:
        super().__init__(message)
        self.prefixes = tuple(prefixes)


class MissingChains(Refused):
    """Whole chains, or their ends, are not there."""

    def __init__(self, message: str, prefixes: Sequence[str]) -> None:
        super().__init__(message)
        self.prefixes = tuple(prefixes)


def prefixes_of(error: LogstoreError) -> Sequence[str]:
    """Below which objects are missing; empty for any other error."""
    return error.prefixes if isinstance(error, MissingObjects | MissingChains) else ()


def prefixes_of_chain(epoch: int) -> list[str]:
    return [chain_prefix(epoch), checkpoints_prefix(epoch)]
