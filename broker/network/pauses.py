"""Why a connection is not read."""

from enum import IntEnum


class Pause(IntEnum):
    """Bits of an int (an IntFlag is ten times as slow)."""

    REQUESTS = 1
    UNSENT = 2
    LOG_FULL = 4
    STOPPING = 8
    CHECKING = 16
    TURN = 32
    MEMORY = 64
    ANSWERS_FULL = 128
    POLLING = 256
    THROTTLED = 512
