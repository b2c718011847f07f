"""Buckets that refuse: expired credentials, missing rights, throttling. What a query then says."""

import pytest

from logstore.errors import Denied
from logstore.formats.offset_range import OffsetRange
from logstore.formats.segment_ranges import SegmentRange
from logstore.formats.topic_partition import TopicPartition
from logstore.reading.direct.log_metadata import LogMetadata
from logstore.reading.direct.task_rows import read_rows
from logstore.reading.planning.tasks import ReadTask, SeqRange
from logstore.wiring.open import open_objects
from spark_source.options import Mode, parse_options
from spark_source.progress import Progress
from tests.servers.locked_moto import aws_environment
from tests.servers.saying import saying_server
from tests.spark_source.stepped_time import SteppedTime

TOPIC = b"t" * 16
URL = "s3://bucket/log"


def initial(endpoint: str, time: SteppedTime) -> None:
    given = {"path": URL, "subscribe": "orders", "storage.endpoint": endpoint}
    options = parse_options(given, Mode.STREAM)
    survey = LogMetadata(
        options.url, options.topics, dict(options.storage), clock=time, sleep_s=time.pass_s
    )
    Progress(options, survey, 2).initial()


@pytest.mark.parametrize("code", ["ExpiredToken", "AccessDenied", "InvalidAccessKeyId"])
def test_credentials_that_do_not_do_are_reported_at_once(code: str) -> None:
    time = SteppedTime()
    with aws_environment(), saying_server() as server:
        server.say(400 if code == "ExpiredToken" else 403, code, f"{code} it is")
        with pytest.raises(Denied, match=code):
            initial(server.endpoint, time)

    assert time.passed_s == 0


def test_a_task_tells_at_once_that_its_credentials_have_expired() -> None:
    piece = SegmentRange(OffsetRange(TopicPartition(TOPIC, 0), 0, 5), 0, 1, 1, 1)
    task = ReadTask((SeqRange(1, 1, 1, (piece,)),))
    with aws_environment(), saying_server() as server:
        server.say(400, "ExpiredToken", "the token has expired")
        store = open_objects(URL, {"storage.endpoint": server.endpoint})
        with pytest.raises(Denied, match="ExpiredToken"):
            list(read_rows(store, task, {TOPIC: "orders"}, ["offset"]))
        assert len(server.requests) == 1
        store.close()


def test_a_bucket_that_asks_for_patience_is_asked_again() -> None:
    time = SteppedTime()
    with aws_environment(), saying_server() as server:
        server.say(503, "SlowDown", "reduce your request rate")
        time.at(0.01, lambda: server.say(403, "AccessDenied", "that ends the test"))
        with pytest.raises(Denied, match="AccessDenied"):
            initial(server.endpoint, time)

    assert time.passed_s > 0
