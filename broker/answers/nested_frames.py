"""The names by which handlers encode a long response in parts (`logstore.wire.framing.parts`)."""

from collections.abc import Sequence
from typing import Any

from logstore.slices import Slices
from logstore.wire.framing.apis import Api
from logstore.wire.framing.parts import encode_frame_in_parts
from logstore.wire.primitives import Buffer


def nested_frame(
    correlation_id: int, api: Api, version: int, response: Any, path: Sequence[str]
) -> Slices[list[Buffer]]:
    """Encode a response as `encode_frame_in_parts` does, which knows the arrays without `path`."""
    return encode_frame_in_parts(correlation_id, api, version, response)
