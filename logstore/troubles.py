"""Troubles that last: which of them to report now, so that each gets few log lines.

The caller passes the clock, and words and writes the lines. For example with `after_s` 1 and
`again_s` 60, a trouble that occurs each half second from 10 s on is due at 11 s, 71 s, 131 s.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf


@dataclass(slots=True)
class _Lasting:
    since_s: float
    reported_at_s: float | None = None


class LastingTroubles:
    """A trouble is reported once it has lasted for `after_s`, then every `again_s`.

    Beyond `count_max` all are forgotten, and reported again.
    """

    def __init__(
        self, *, after_s: float = 0.0, again_s: float = inf, count_max: float = inf
    ) -> None:
        self._after_s = after_s
        self._again_s = again_s
        self._count_max = count_max
        self._lasting: dict[str, _Lasting] = {}

    def occurred(self, trouble: str, now_s: float) -> float | None:
        """The seconds that it has lasted, if it is to be reported now."""
        lasting = self._lasting.get(trouble)
        if lasting is None:
            if len(self._lasting) >= self._count_max:
                self._lasting.clear()
            lasting = self._lasting[trouble] = _Lasting(now_s)
        reported_at_s, for_s = lasting.reported_at_s, now_s - lasting.since_s
        is_due = reported_at_s is None or now_s - reported_at_s >= self._again_s
        if not is_due or for_s < self._after_s:
            return None
        lasting.reported_at_s = now_s
        return for_s

    def ended(self, trouble: str, now_s: float) -> float | None:
        """The seconds that it lasted, if it was reported: its end is to be reported too."""
        lasting = self._lasting.pop(trouble, None)
        if lasting is None or lasting.reported_at_s is None:
            return None
        return now_s - lasting.since_s

    def replace(self, troubles: Iterable[str], now_s: float) -> list[str]:
        """Those to be reported of `troubles`, all that there are now: the others have ended."""
        now = list(troubles)
        self._lasting = {one: self._lasting[one] for one in now if one in self._lasting}
        return [one for one in now if self.occurred(one, now_s) is not None]
