"""Answers a call with arrays in arrays, encoded in slices where it has many items, or in parts."""

from collections.abc import Sequence
from typing import Any

from broker.answers.nested_frames import SLICE_ITEMS, item_count, nested_frame
from broker.network.call import Call
from logstore.slices import Slices


def answer_nested(call: Call, response: Any, path: Sequence[str]) -> Slices[None]:
    """`path` names the arrays, one in the other: `("topics", "partitions")`."""
    if item_count(response, path, SLICE_ITEMS) <= SLICE_ITEMS:
        call.answer(response)
        return
    call.say_throttle(response)
    call.note_errors(response)
    head = (call.correlation_id, call.api, call.version)
    call.answer_bytes((yield from nested_frame(*head, response, path)))
