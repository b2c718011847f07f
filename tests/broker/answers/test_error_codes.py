"""Every error has a code: trouble of our own is retriable, nothing is left to chance."""

import pytest

from broker.answers.decisions.refuse import Refuse
from broker.answers.error_codes import BATCH_CODES, CODES, PRODUCER_CODES, code_of
from logstore import errors
from logstore.epoch.leader import ProducerRefused, Refusal
from logstore.records.batch import CorruptBatch, InvalidBatch, Reason
from logstore.wire.errors import ErrorCode


def all_errors(kind: type[errors.LogstoreError]) -> list[type[errors.LogstoreError]]:
    return [kind, *(one for sub in kind.__subclasses__() for one in all_errors(sub))]


def test_no_class_but_the_base_is_unknown_to_producers() -> None:
    for kind in all_errors(errors.LogstoreError)[1:]:
        if kind.__module__ != errors.__name__:
            continue
        nearest = next(one for one in kind.__mro__ if one in CODES)
        assert CODES[nearest] != ErrorCode.UNKNOWN_SERVER_ERROR, kind
    assert code_of(errors.Throttled("slow down")) == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("kind", [errors.Retryable, errors.OutcomeUnknown, errors.Refused])
def test_trouble_of_our_own_is_retriable(kind: type[errors.LogstoreError]) -> None:
    assert code_of(kind("trouble")).retriable


def test_every_reason_and_refusal_has_a_code() -> None:
    assert set(BATCH_CODES) == set(Reason)
    assert set(PRODUCER_CODES) == set(Refusal)
    assert code_of(CorruptBatch(Reason.BAD_CRC, 0, "")) == ErrorCode.CORRUPT_MESSAGE
    assert code_of(InvalidBatch(Reason.BAD_COUNT, 0, "")) == ErrorCode.INVALID_RECORD
    assert code_of(ProducerRefused(Refusal.STALE_EPOCH, "")) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_refusal_has_the_code_it_was_given() -> None:
    assert code_of(Refuse(ErrorCode.INVALID_CONFIG, "no")) == ErrorCode.INVALID_CONFIG


def test_no_trouble_of_ours_is_said_to_be_one_of_replicas() -> None:
    codes = {*CODES.values(), *BATCH_CODES.values(), *PRODUCER_CODES.values()}

    assert ErrorCode.NOT_ENOUGH_REPLICAS not in codes
    assert ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND not in codes
