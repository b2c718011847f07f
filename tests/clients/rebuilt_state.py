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

    def digest(self) -> str:
        return hashlib.sha256(repr(sorted(self.values.items())).encode()).hexdigest()
