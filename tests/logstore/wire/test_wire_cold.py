"""Code that is written by fields does what unrolled code does: same messages, same errors."""

import random
from functools import cache
from typing import Any

import pytest

from logstore.errors import Invalid
from logstore.wire.framing.item_limit import ItemLimit
from logstore.wire.message_reader import MessageReader
from logstore.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from logstore.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from logstore.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from logstore.wire.primitives import ARRAY_COUNT_MAX, Buffer, DecodeError, Message
from tests.logstore.wire.test_wire_malformed import mutate
from tools import generate_wire
from tools.full_wire import APIS

RECORDS = ("produce", "fetch")


def _cases(clients_half: str) -> list[Any]:
    """Returns APIs and roles by fields: `clients_half` is a client's of a hot API as well."""
    return [
        pytest.param(api, role, id=f"{api.module}-{role}")
        for api in generate_wire.APIS
        for role in ("request", "response")
        if api.module not in generate_wire.HOT
        or (role == clients_half and api.module not in RECORDS)
    ]


ORIGINALS = 6
MUTANTS = 8
WRONG = (None, "\ud800", "x" * 40_000, 1 << 70, -1, b"x" * 7, [None], 0.5)


@cache
def _unrolled(key: int) -> dict[str, Any]:
    api = next(api for api in generate_wire.APIS if api.key == key)
    names: dict[str, Any] = {"__name__": "unrolled"}
    exec(generate_wire.unrolled(api), names)
    return names


def _decoded(decode: Any, data: Buffer, count_max: int) -> object:
    """Returns what comes of it, and what is left of the bound on all arrays."""
    limit = ItemLimit(count_max)
    try:
        return decode(data, 0, len(data), limit), vars(limit)
    except DecodeError as error:
        return str(error), vars(limit)


@pytest.mark.parametrize(("api", "role"), _cases("response"))
def test_mutated_messages_decode_or_fail_as_in_unrolled_code(
    oracle_of: Any, api: Any, role: str
) -> None:
    rng = random.Random(f"cold {api.module} {role}")
    table = f"DECODE_{role.upper()}"
    for version, decode in APIS[api.key].table(table).items():
        oracle, unrolled = oracle_of(api.module, role, version), _unrolled(api.key)[table]
        for _ in range(ORIGINALS):
            whole = oracle.encode(oracle.random(rng))
            mutants = [mutate(whole, rng) for _ in range(MUTANTS)]
            for data in (whole, whole[: rng.randrange(len(whole) + 1)], *mutants):
                for count_max in (ARRAY_COUNT_MAX, 3):
                    ours = _decoded(decode, memoryview(data), count_max)
                    assert ours == _decoded(unrolled[version], data, count_max), data


@pytest.mark.parametrize(("api", "role"), _cases("request"))
def test_values_that_a_version_cannot_carry_fail_as_in_unrolled_code(
    oracle_of: Any, api: Any, role: str
) -> None:
    rng = random.Random(f"values of {api.module} {role}")
    whole = APIS[api.key]
    encode = whole.encode_request if role == "request" else whole.encode_response
    for version in (api.versions[0], api.versions[-1]):
        oracle = oracle_of(api.module, role, version)
        unrolled = _unrolled(api.key)[f"ENCODE_{role.upper()}"][version]
        for _ in range(ORIGINALS * MUTANTS):
            message = oracle.translate(oracle.random(rng))
            owner = _any_struct(message, rng)
            if owner.__slots__:
                setattr(owner, rng.choice(owner.__slots__), rng.choice(WRONG))
            assert _encoded(encode, version, message) == _by(unrolled, message)


def _any_struct(owner: Any, rng: random.Random) -> Any:
    values = [getattr(owner, name) for name in owner.__slots__]
    lists = [value for value in values if isinstance(value, list) and value]
    items = [items[-1] for items in lists if isinstance(items[-1], Message)]
    if not items or rng.random() < 0.3:
        return owner
    return _any_struct(rng.choice(items), rng)


def _encoded(encode: Any, version: int, message: Any) -> object:
    parts: list[Buffer] = []
    try:
        encode(version, message, parts)
    except Invalid:
        return None
    return b"".join(parts)


def _by(encode: Any, message: Any) -> object:
    parts: list[Buffer] = []
    try:
        last = encode(message, bytearray(), parts)
    except Exception:  # noqa: BLE001 - each is `Invalid` where it is called
        return None
    return b"".join((*parts, last))


def test_the_error_names_the_field_and_the_byte() -> None:
    body = _request(19, 2, CreateTopicsRequest([CreatableTopic("logs", 1, 1)]))
    with pytest.raises(DecodeError, match=r"CreatableTopic\.num_partitions at byte=14: .*early"):
        APIS[19].decode_request(2, body[:5] + b"\x08" + body[6:10] * 2 + body[10:16])
    with pytest.raises(DecodeError, match=r"CreatableTopic\.name at byte=6: length=99 bytes_left"):
        APIS[19].decode_request(2, body[:4] + b"\0\x63" + body[6:])
    with pytest.raises(DecodeError, match=r"CreatableTopic\.name at byte=6: null"):
        APIS[19].decode_request(2, body[:4] + b"\xff\xff" + body[6:])
    with pytest.raises(DecodeError, match=r"CreatableTopic\.name at byte=6: .*utf-8"):
        APIS[19].decode_request(2, body.replace(b"logs", b"lo\xffs"))
    with pytest.raises(DecodeError, match=r"array of CreatableTopic at byte=4: count=77 .*left="):
        APIS[19].decode_request(2, b"\0\0\0\x4d" + body[4:])


def test_zero_in_two_bytes_is_null() -> None:
    body = _request(13, 4, LeaveGroupRequest("g", members=[MemberIdentity("m")]))
    assert body == b"\2g\2\2m\0\0\0"
    longer = b"\2g\2\2m\x80\0\0\0"
    assert APIS[13].decode_request(4, longer) == APIS[13].decode_request(4, body)


@pytest.mark.parametrize("version", [1, 4])
@pytest.mark.parametrize("count", [0, 126, 127, 300])
def test_arrays_of_strings_of_any_length_are_read(version: int, count: int) -> None:
    names = [f"größe-{number}" for number in range(count)]
    resources = [DescribeConfigsResource(2, "t", names), DescribeConfigsResource(2, "u", None)]
    request = DescribeConfigsRequest(resources)

    assert APIS[32].decode_request(version, _request(32, version, request)) == request


def _request(key: int, version: int, request: Any) -> bytes:
    parts: list[Buffer] = []
    APIS[key].encode_request(version, request, parts)
    return b"".join(parts)


@pytest.mark.parametrize("read_bytes", [1, 3])
def test_a_tagged_field_that_ends_elsewhere_than_it_says_is_refused(read_bytes: int) -> None:
    reader = MessageReader(b"\x01\x00\x02\xab\xcd\xef", 0, 6, ARRAY_COUNT_MAX)

    def read(message: Message, its: MessageReader, tag: int) -> bool:
        its.at += read_bytes
        return True

    with pytest.raises(ValueError, match="tag=0 does not end where it says"):
        reader.known_tags(Message(), read)
