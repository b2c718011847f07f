"""Every error logstore raises, sorted by what the caller should do about it.

    LogstoreError
    ├── Unavailable          the store or the registry did not do it, or did not say so: a broker,
    │   │                    which has to outlive this, catches all three
    │   ├── Retryable        nothing happened; the same call may work later
    │   │   ├── Throttled    the store asked for fewer requests
    │   │   └── NoRoom       its disk or quota is full: a person must act, so who waits is answered
    │   ├── OutcomeUnknown   it may or may not have happened, or may happen yet: look first
    │   └── Denied           credentials or permissions, nothing happened: a person must act, so a
    │                        command that a person waits for ends with it
    ├── NotFound             no object has this key (now: an absent object settles nothing)
    ├── AlreadyExists        an object has this key already, or (a store's 409) may have: look
    ├── ConditionFailed      the row is not what the caller thought: decide again from `current`
    ├── Fenced               a newer epoch took over: stop writing, for good
    ├── Corrupt              stored bytes break the format: never retry, raise an alarm
    ├── Refused              it is not safe to start or go on: a person must act, the text says how
    └── Invalid              the caller asked for something impossible

A new class must earn its place: add one only where a caller would act differently. Messages are in
lower case, facts follow as key=value, and what to do about it comes last.
"""

from collections.abc import Mapping
from typing import TypeVar

DISK_IS_FULL = "the disk is full"
FREE_SPACE = "free some space, it goes on by itself"
"""Said by all that tell of `NoRoom`, and what to do."""

AnyError = TypeVar("AnyError", bound=BaseException)


class LogstoreError(Exception):
    """Base of every error raised on purpose."""


class Unavailable(LogstoreError): ...


class Retryable(Unavailable): ...


class Throttled(Retryable): ...


class NoRoom(Retryable): ...


class OutcomeUnknown(Unavailable): ...


class Denied(Unavailable): ...


class NotFound(LogstoreError): ...


class AlreadyExists(LogstoreError): ...


class ConditionFailed(LogstoreError):
    """A conditional write did nothing; `current` is the row as it stood, None if there is none."""

    def __init__(self, message: str, current: Mapping[str, str | int | bytes] | None) -> None:
        super().__init__(message)
        self.current = current


class Fenced(LogstoreError): ...


class Corrupt(LogstoreError): ...


class Refused(LogstoreError): ...


class Invalid(LogstoreError): ...


def without_frames(error: AnyError) -> AnyError:
    """`error`, and all that it came from, without tracebacks: where it is handed to another stack.

    Frames keep their variables, sockets and buffers among them, and an error that one of them
    holds bears it in turn. Only the collector of garbage finds such a cycle, in a broker after
    minutes or hours (`broker.process.collector`).
    """
    chain: list[BaseException | None] = [error]
    seen: set[int] = set()
    while chain:
        one = chain.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = None
            chain += (one.__cause__, one.__context__)
    return error
