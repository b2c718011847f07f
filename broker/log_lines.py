"""How log lines look: one line each on stderr, time in UTC, facts as key=value.

2026-01-31T12:00:00.123Z WARNING broker.connection connection closed: peer=127.0.0.1:5000 ...
"""

import logging
import time


class _Lines(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"


def configure_log_lines() -> None:
    """For a process that is a broker; libraries' own lines only from WARNING on."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ("broker", "logstore"):
        logging.getLogger(name).setLevel(logging.INFO)
