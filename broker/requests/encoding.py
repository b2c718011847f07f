"""The frame of an answer: at once where it is small, in parts where it has many items."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from broker.answers.decisions.item_frames import ItemFrame
from broker.network.call import Call
from logstore.errors import Invalid
from logstore.slices import Slices
from logstore.wire.framing.apis import encode_frame
from logstore.wire.framing.parts import PART_ITEMS, encode_frame_in_parts, item_count
from logstore.wire.primitives import Buffer


class EncodedAnswer(NamedTuple):
    """An answer whose items a handler encodes itself, since their bytes are kept."""

    head: Any
    """The response without these items."""
    errors: Mapping[int, int]
    """How many of them have each error code."""
    frame: Callable[[], Sequence[Buffer]]
    """The whole frame, of the head as it is then."""


def items_of(call: Call, response: Any, field: str) -> ItemFrame:
    """Returns an answer to which items of the array `field` are added one by one, and counted.

    A handler that returns it instead of a response holds their bytes alone.
    """
    return ItemFrame(call.correlation_id, call.api, call.version, response, field)


def encode_small(call: Call, response: Any) -> Sequence[Buffer] | None:
    """Returns the frame of the answer to `call`, with its size; None: `encode_long` is to.

    Says in it how long the client is throttled, and counts its error codes. Raises `Invalid` for a
    value that the version cannot carry.
    """
    if isinstance(response, EncodedAnswer):
        call.say_throttle(response.head)
        call.count_errors(response.errors)
        return response.frame()
    if isinstance(response, ItemFrame):
        call.say_throttle(response.response)
        buffers = response.buffers()  # its items are encoded, and gone from the response
        call.note_errors([response.response, *response.refused])
        return buffers
    arrays = call.api.response_arrays(call.version)
    if arrays and item_count(response, arrays, PART_ITEMS) > PART_ITEMS:
        return None
    call.say_throttle(response)
    call.note_errors(response)
    try:
        return encode_frame(call.correlation_id, call.api, call.version, response)
    except Invalid as error:
        raise Invalid(f"cannot answer: {error}") from error


def encode_long(call: Call, response: Any) -> Slices[Sequence[Buffer]]:
    """As `encode_small`, in parts; `response` is empty afterwards."""
    call.say_throttle(response)
    call.note_errors(response)
    head = (call.correlation_id, call.api, call.version)
    return (yield from encode_frame_in_parts(*head, response))
