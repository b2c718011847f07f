"""Answers a call with arrays in arrays, encoded in slices where it has many items, or in parts."""

from collections.abc import Sequence
from typing import Any

from broker.answers.item_frames import ItemFrame
from broker.network.call import Call
from logstore.slices import Slices
from logstore.wire.framing.parts import PART_ITEMS, encode_frame_in_parts, item_count


def answer_nested(call: Call, response: Any, path: Sequence[str]) -> Slices[None]:
    """Answer `call`. `path` names the long arrays, for readers: the generated code knows them."""
    arrays = call.api.response_arrays(call.version)
    if item_count(response, arrays, PART_ITEMS) <= PART_ITEMS:
        call.answer(response)
        return
    call.say_throttle(response)
    call.note_errors(response)
    head = (call.correlation_id, call.api, call.version)
    call.answer_bytes((yield from encode_frame_in_parts(*head, response)))


def answer_items(call: Call, frame: ItemFrame) -> None:
    call.say_throttle(frame.response)
    buffers = frame.buffers()  # without its items in the response
    call.note_errors([frame.response, *frame.refused])
    call.answer_bytes(buffers)
