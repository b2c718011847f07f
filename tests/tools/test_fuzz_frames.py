"""Frames that attack a broker: every key, most of them damaged, and half reach a handler."""

import random
import struct
from itertools import islice

from logstore.wire.framing.apis import decode_request_header
from logstore.wire.primitives import DecodeError
from tests.broker.running import running_broker
from tools.full_wire import APIS
from tools.fuzz.brokers import Tally, attack
from tools.fuzz.frames import RARE, frames, served

MANY = 4_000
_SIZE = struct.Struct(">i")


def test_frames_are_of_every_key_and_half_of_them_decode() -> None:
    keys, sound_count = set(), 0
    for frame in islice(frames(random.Random(1)), MANY):
        assert _SIZE.unpack_from(frame)[0] == len(frame) - _SIZE.size
        body = memoryview(frame)[_SIZE.size :]
        key, version, _, _, at = decode_request_header(body)
        assert (key, version) in served()
        keys.add(key)
        try:
            APIS[key].decode_request(version, body, at, 1_000)
            sound_count += 1
        except DecodeError:
            pass
    assert {key for key, _ in served()} - keys <= set(RARE)
    assert MANY // 2 <= sound_count < MANY


def test_the_same_seed_gives_the_same_frames() -> None:
    one, other = (list(islice(frames(random.Random(5)), 50)) for _ in range(2))
    assert one == other


def test_each_frame_is_answered_or_refused_and_the_broker_serves_on() -> None:
    total = Tally()
    with running_broker({"auto.create.topics.enable": "false"}) as running:
        source = frames(random.Random(3))
        for one in attack(("127.0.0.1", running.listener.port), source):
            total = Tally(*map(sum, zip(total, one, strict=True)))
            if total.total >= 200:
                break
        with running.connect() as client:
            assert client.negotiate()
    assert total.answered > 50
    assert total.refused > 20
