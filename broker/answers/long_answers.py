"""Answers a call whose handler goes its own way: in slices where the answer has many items."""

from typing import Any

from broker.network.call import Call
from logstore.slices import Slices
from logstore.wire.framing.parts import PART_ITEMS, encode_frame_in_parts, item_count


def answer_long(call: Call, response: Any) -> Slices[None]:
    arrays = call.api.response_arrays(call.version)
    if item_count(response, arrays, PART_ITEMS) <= PART_ITEMS:
        call.answer(response)
        return
    call.say_throttle(response)
    call.note_errors(response)
    head = (call.correlation_id, call.api, call.version)
    call.answer_bytes((yield from encode_frame_in_parts(*head, response)))
