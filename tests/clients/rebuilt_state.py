"""State that a consumer rebuilds from a compacted topic, and a digest of it to compare."""

import hashlib


class RebuiltState:
    """Of each key the last value; a null value deletes it. `count`: records that were read."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.count = 0

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        self.count += 1
        if key is None:
            return
        self.values.pop(key, None)
        if value is not None:
            self.values[key] = value

    def sum(self) -> str:
        """Entries, and the exclusive or of their hashes: as `ChangelogUsers.java` says it."""
        found = 0
        for key, value in self.values.items():
            found ^= int.from_bytes(hashlib.sha256(key + b"\0" + value).digest())
        return f"{len(self.values)} {found:064x}"

    def digest(self) -> str:
        return hashlib.sha256(repr(sorted(self.values.items())).encode()).hexdigest()
