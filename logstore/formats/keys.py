"""Keys of everything a chain stores, relative to the log's URL."""

import hashlib

CLUSTER_KEY = "cluster.json"
CHAINS = "chains/"
CHECKPOINTS = "checkpoints/"
LEVELS = "levels/"
"""Marks of finalized format levels, one a level (`protocol.leading.upgrade`)."""


def _spread(epoch: int) -> str:
    """Two hexadecimal digits that spread chains over S3's key-space partitions."""
    return hashlib.blake2b(epoch.to_bytes(8, "big"), digest_size=1).hexdigest()


def chain_prefix(epoch: int) -> str:
    return f"{CHAINS}{_spread(epoch)}/{epoch:020d}/"


def segment_key(epoch: int, seq: int) -> str:
    return f"{chain_prefix(epoch)}{seq:020d}"


def checkpoints_prefix(epoch: int) -> str:
    return f"{CHECKPOINTS}{epoch:020d}/"


def checkpoint_key(epoch: int, seq: int) -> str:
    return f"{checkpoints_prefix(epoch)}{seq:020d}"


def seq_of(key: str) -> int:
    """Of a segment's or a checkpoint's key."""
    return int(key.rpartition("/")[2])


def level_key(level: int) -> str:
    return f"{LEVELS}{level}"


def level_of_key(key: str) -> int | None:
    """The level of a mark's key; None for any other."""
    digits = key.removeprefix(LEVELS)
    return int(digits) if digits.isascii() and digits.isdigit() else None
