"""The frame of an answer: at once where it is small, in parts where it has many items."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from broker.answers.item_frames import ItemFrame
from broker.answers.nested_frames import SLICE_ITEMS, item_count, nested_frame
from broker.network.call import Call
from logstore.errors import Invalid
from logstore.slices import Slices
from logstore.wire.framing.apis import encode_frame
from logstore.wire.primitives import Buffer

_NO_ARRAYS: Sequence[str] = ()
_OFFSET_FETCH_KEY, _GROUPS_FROM = 9, 8
_GROUPS_OF_OFFSETS = ("groups", "topics", "partitions")
_ARRAYS: Mapping[int, Sequence[str]] = {
    2: ("topics", "partitions"),
    8: ("topics", "partitions"),
    13: ("members",),
    16: ("groups",),
    19: ("topics", "configs"),
    20: ("responses",),
    21: ("topics", "partitions"),
    23: ("topics", "partitions"),
    30: ("results",),
    31: ("filter_results",),
    34: ("results", "partitions"),
    35: ("results", "topics", "partitions"),
    37: ("results",),
    42: ("results",),
    43: ("replica_election_results", "partition_result"),
    45: ("responses", "partitions"),
    46: ("topics", "partitions"),
    47: ("topics", "partitions"),
    48: ("entries",),
    49: ("entries", "entity"),
    50: ("results",),
    55: ("topics", "partitions"),
    61: ("topics", "partitions", "active_producers"),
    66: ("unknown_state_filters",),
    74: ("config_resources",),
    75: ("topics", "partitions"),
}
"""By API key: the arrays of a response that may be long, one in the other."""


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
    arrays = _arrays_of(call)
    if arrays and item_count(response, arrays, SLICE_ITEMS) > SLICE_ITEMS:
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
    arrays = _arrays_of(call)
    head = (call.correlation_id, call.api, call.version)
    return (yield from nested_frame(*head, response, arrays))


def _arrays_of(call: Call) -> Sequence[str]:
    if call.api.key == _OFFSET_FETCH_KEY:
        return _GROUPS_OF_OFFSETS[call.version < _GROUPS_FROM :]
    return _ARRAYS.get(call.api.key, _NO_ARRAYS)
