"""Options of the sink: what is meant, and what is refused with what to write instead."""

import pytest

from logstore.errors import Invalid
from spark_source.sink.options import Delivery, parse_write_options

LOG = {"path": "/log", "topic": "orders"}


def test_what_is_not_given_is_exactly_once_in_lz4() -> None:
    found = parse_write_options(LOG, is_stream=True)

    assert (found.delivery, found.codec, found.adopt_timeout_s) == (
        Delivery.EXACTLY_ONCE,
        "lz4",
        120,
    )
    assert (found.topic, found.sink_id, found.version, found.bootstrap) == (
        "orders",
        None,
        None,
        "",
    )


def test_names_are_taken_in_any_case() -> None:
    given = {**LOG, "SINKID": "one", "Adopt.Timeout": "30s", "COMPRESSION": "ZSTD"}
    found = parse_write_options(given, is_stream=True)

    assert (found.sink_id, found.adopt_timeout_s, found.codec) == ("one", 30, "zstd")


def test_a_batch_that_may_be_repeated_has_an_id_and_a_version() -> None:
    found = parse_write_options({**LOG, "txnAppId": "job", "txnVersion": "7"}, is_stream=False)

    assert (found.sink_id, found.version) == ("job", 7)


def test_options_of_kafkas_producer_are_accepted_and_named() -> None:
    given = {
        **LOG,
        "kafka.acks": "all",
        "kafka.bootstrap.servers": "b:9092",
        "kafka.compression.type": "gzip",
        "checkpointLocation": "/c",
    }
    found = parse_write_options(given, is_stream=True)

    assert found.without_effect == ("kafka.acks",)
    assert (found.bootstrap, found.codec) == ("b:9092", "gzip")


REFUSED = [
    ({"topics": "x"}, True, "unknown option of the sink: name=topics; did you mean topic?"),
    ({"subscribe": "x"}, True, "unknown option of the sink"),
    ({"topic": " "}, True, "option topic is empty"),
    ({"compression": "brotli"}, True, "option compression is none of none, gzip"),
    ({"delivery": "at-most-once"}, True, "option delivery is neither exactly-once nor"),
    ({"delivery": "at-least-once", "sinkId": "s"}, True, "are for delivery=exactly-once"),
    ({"sinkId": ""}, True, "option sinkId is empty"),
    ({"sinkId": "s"}, False, "option sinkId is for streams; a batch write that may be repeated"),
    ({"txnAppId": "a"}, False, "txnAppId and txnVersion go together"),
    ({"txnVersion": "1"}, False, "txnAppId and txnVersion go together"),
    ({"txnAppId": "a", "txnVersion": "-1"}, False, "txnVersion is not a whole number"),
    ({"txnAppId": "a", "txnVersion": str(2**63 - 1)}, False, "txnVersion is not a whole number"),
    ({"txnAppId": "a", "txnVersion": "1"}, True, "option txnAppId is for batch writes"),
    ({"adopt.timeout": "soon"}, True, "option adopt.timeout is not a duration"),
    ({"includeHeaders": "yes"}, True, "option includeHeaders is neither true nor false"),
    ({"url": "/other"}, True, "options path and url differ"),
]


@pytest.mark.parametrize("given, is_stream, text", REFUSED)
def test_what_cannot_be_is_refused(given: dict[str, str], is_stream: bool, text: str) -> None:
    with pytest.raises(Invalid, match=text):
        parse_write_options({**LOG, **given}, is_stream=is_stream)
