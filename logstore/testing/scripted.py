"""Drives one protocol by hand: each request it makes is kept, each answer comes from a script."""

from collections.abc import Iterable
from typing import Any, TypeVar

from logstore.errors import LogstoreError
from logstore.protocol.steps import (
    BackOff,
    BelievedMs,
    DrawNonce,
    GraceStartMs,
    MonotonicS,
    NowMs,
    Request,
    Steps,
    StoreMs,
    Wait,
)
from logstore.runners.step_runner import StepRunner, outcome_of

T = TypeVar("T")
R = TypeVar("R")


def drive(
    steps: Steps[T], answers: Iterable[Any], *, now_ms: int = 0, nonce: bytes = b"n" * 16
) -> tuple[T, list[Request]]:
    """Returns the protocol's result and the requests that it made of stores.

    `answers` are for those requests only: an error is thrown, anything else is sent. Waits, times
    and nonces are answered here. Raises `AssertionError` when the script is too short or too long.
    """
    script = iter(answers)
    made: list[Request] = []
    answer: Any = None
    while True:
        try:
            failed = isinstance(answer, LogstoreError)
            request = steps.throw(answer) if failed else steps.send(answer)
        except StopIteration as end:
            assert next(script, None) is None, "answers are left over"
            result: T = end.value
            return result, made
        match request:
            case BackOff() | Wait():
                answer = None
            case NowMs() | BelievedMs() | StoreMs() | GraceStartMs():
                answer = now_ms
            case MonotonicS():
                answer = now_ms / 1000
            case DrawNonce():
                answer = nonce
            case _:
                made.append(request)
                answer = next(script, _END)
                assert answer is not _END, f"no answer left for {request}"


def resume(steps: Steps[T], request: Request) -> Steps[T]:
    """The rest of `steps`, which stand at `request` and have no answer yet."""
    while True:
        try:
            try:
                answer = yield request
            except LogstoreError as error:
                request = steps.throw(error)
            else:
                request = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result


async def stop_before(runner: StepRunner, steps: Steps[T], kind: type[R]) -> R:
    """Perform what comes before the first request of this kind, which is given back.

    Raises what ends `steps` earlier; `AssertionError` when they end well.
    """
    answer: Any = None
    while True:
        try:
            failed = isinstance(answer, LogstoreError)
            request = steps.throw(answer) if failed else steps.send(answer)
        except StopIteration:
            raise AssertionError(f"no {kind.__name__} was asked for") from None
        if isinstance(request, kind):
            return request
        answer = await outcome_of(runner._perform(request))


_END = object()
