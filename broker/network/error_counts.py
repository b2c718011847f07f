"""Error codes in responses, by API: of the response itself, and of each item in its arrays.

The arrays of a response are found by its fields, so a new API is counted without a line here. Only
answers of Metadata, which are encoded topic by topic and kept encoded, come with their counts.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from logstore.wire.errors import ErrorCode
from logstore.wire.primitives import Message

ITEMS_MAX = 1_000
"""Items of one response that are looked at: it takes some hundred microseconds."""


class ErrorCounts:
    def __init__(self) -> None:
        self.by_api: Counter[tuple[str, int]] = Counter()
        """By name of the API and error code."""
        # There from the start: of a series that begins at 1 no alert sees that it grew.
        self.by_api["Fetch", int(ErrorCode.CORRUPT_MESSAGE)] = 0

    def count(self, api: str, codes: Mapping[int, int]) -> None:
        for code, number in codes.items():
            self.by_api[api, code] += number

    def look_at(self, api: str, response: Any) -> None:
        """Count the codes in a response, or in a list of its items."""
        waiting: list[Any] = (
            list(response[:ITEMS_MAX]) if isinstance(response, list) else [response]
        )
        seen = 0
        while waiting and seen < ITEMS_MAX:
            item = waiting.pop()
            seen += 1
            code = getattr(item, "error_code", 0)
            if code:
                self.by_api[api, int(code)] += 1
            for name in item.__slots__:
                value = getattr(item, name)
                if type(value) is list and value and isinstance(value[0], Message):
                    waiting += value[: ITEMS_MAX - seen]
