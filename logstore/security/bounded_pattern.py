"""Regular expressions whose time is bounded: by pattern times text, whatever both are. Pure.

Python's own try every way to share a text among `.*`: a pattern of a setting and a subject of a
certificate would hold a broker for hours. Here a place in the pattern that failed at a place in the
text is not tried there again. It takes what rules for names need:

    a  .  \\.  \\d \\w \\s \\D \\W \\S  [a-z]  [^,]  (…)  (?:…)  x|y
    *  +  ?  {2,5}  and each of them with ? behind it  ^  $

Not taken: back references, looking ahead or behind, possessive and named groups, flags.
"""

from collections.abc import Callable
from typing import NamedTuple

from logstore.errors import Invalid

STEPS_MAX = 512
"""Of a pattern, with its repeated parts written out."""
REPEATS_MAX = 64
DEPTH_MAX = 16

Takes = Callable[[str], bool]


class BadPattern(Invalid):
    """A pattern that is not taken here."""


class _PatternStep(NamedTuple):
    """One of: a character, a choice of two places, a mark of a group, an edge of the text."""

    takes: Takes | None = None
    first: int = -1
    second: int = -1
    mark: int = -1
    edge: str = ""


class BoundedPattern:
    def __init__(self, pattern: str) -> None:
        """Raises `BadPattern`."""
        parser = _Parser(pattern)
        self.group_count, self._steps = parser.compile()

    def full_match(self, text: str) -> tuple[str, ...] | None:
        """The text of each group where the whole of `text` matches; those left out are empty."""
        steps, size = self._steps, len(text)
        tried = bytearray((len(steps) + 1) * (size + 1))
        waiting: list[_State] = [(0, 0, (-1,) * (2 * self.group_count))]
        while waiting:
            state = waiting.pop()
            step_at, at, marks = state
            place = step_at * (size + 1) + at
            if tried[place]:
                continue
            tried[place] = 1
            if step_at < len(steps):
                waiting += _next(steps[step_at], state, text)
            elif at == size:
                return tuple(
                    text[marks[n] : marks[n + 1]] if marks[n + 1] >= 0 else ""
                    for n in range(0, len(marks), 2)
                )
        return None


_State = tuple[int, int, tuple[int, ...]]
"""A place among the steps, one in the text, and where groups begin and end."""


def _next(step: _PatternStep, state: _State, text: str) -> list[_State]:
    """States to try after `state`, the last one first."""
    step_at, at, marks = state
    if step.takes is not None:
        is_taken = at < len(text) and step.takes(text[at])
        return [(step_at + 1, at + 1, marks)] if is_taken else []
    if step.mark >= 0:
        marks = (*marks[: step.mark], at, *marks[step.mark + 1 :])
        return [(step_at + 1, at, marks)]
    if step.edge:
        is_there = at == (0 if step.edge == "^" else len(text))
        return [(step_at + 1, at, marks)] if is_there else []
    forks = (step.second, step.first) if step.second >= 0 else (step.first,)
    return [(fork, at, marks) for fork in forks]


_Code = list[_PatternStep]
"""Steps with places that count from the first one."""


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0
        self._groups = 0

    def compile(self) -> tuple[int, _Code]:
        code = self._choice()
        if self._at < len(self._pattern):
            raise self._bad("a ) without its (")
        return self._groups, code

    def _choice(self) -> _Code:
        code = self._sequence()
        while self._peek() == "|":
            self._at += 1
            other = self._sequence()
            code = [
                _PatternStep(first=1, second=len(code) + 2),
                *_moved(code, 1),
                _PatternStep(first=len(code) + 2 + len(other)),
                *_moved(other, len(code) + 2),
            ]
            self._check(code)
        return code

    def _sequence(self) -> _Code:
        code: _Code = []
        while self._at < len(self._pattern) and self._peek() not in "|)":
            code += _moved(self._repeated(), len(code))
            self._check(code)
        return code

    def _repeated(self) -> _Code:
        code = self._atom()
        low, high = self._bounds()
        if (low, high) == (1, 1):
            return code
        is_lazy = self._peek() == "?"
        self._at += is_lazy
        if self._peek() in ("*", "+", "?"):
            raise self._bad("a repetition of a repetition")
        repeated: _Code = []
        for _ in range(low):
            repeated += _moved(code, len(repeated))
            self._check(repeated)
        if high is None:
            begin, end = len(repeated), len(repeated) + len(code) + 2
            repeated.append(_fork(begin + 1, end, is_lazy))
            repeated += _moved(code, begin + 1)
            repeated.append(_PatternStep(first=begin))
            return repeated
        end = low * len(code) + (high - low) * (len(code) + 1)
        for _ in range(high - low):
            repeated.append(_fork(len(repeated) + 1, end, is_lazy))
            repeated += _moved(code, len(repeated))
            self._check(repeated)
        return repeated

    def _bounds(self) -> tuple[int, int | None]:
        one = self._peek()
        if one in ("*", "+", "?"):
            self._at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[one]
        if one != "{":
            return 1, 1
        body, closed, _ = self._pattern[self._at + 1 :].partition("}")
        low, comma, high = body.partition(",")
        if not closed or not low.isdecimal() or not (high.isdecimal() or not high):
            raise self._bad("a { without numbers")
        self._at += len(body) + 2
        most = int(high) if high else None if comma else int(low)
        if int(low) > REPEATS_MAX or (most is not None and not int(low) <= most <= REPEATS_MAX):
            raise self._bad(f"more than {REPEATS_MAX} repetitions, or fewer than none")
        return int(low), most

    def _atom(self) -> _Code:
        one = self._take()
        match one:
            case "(":
                return self._group()
            case "[":
                return [_PatternStep(takes=self._class())]
            case ".":
                return [_PatternStep(takes=lambda text: text not in "\n\r")]
            case "^" | "$":
                return [_PatternStep(edge=one)]
            case "\\":
                return [_PatternStep(takes=self._escape())]
            case "*" | "+" | "?" | "{":
                raise self._bad("a repetition of nothing")
            case _:
                pass
        return [_PatternStep(takes=lambda text: text == one)]

    def _group(self) -> _Code:
        is_kept = self._peek() != "?"
        if not is_kept:
            if self._pattern[self._at : self._at + 2] != "?:":
                raise self._bad("a group that begins with (? and is not (?:")
            self._at += 2
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._bad(f"groups deeper than {DEPTH_MAX}")
        number = self._groups
        self._groups += is_kept
        code = self._choice()
        if self._take() != ")":
            raise self._bad("a ( without its )")
        self._depth -= 1
        if not is_kept:
            return code
        return [_PatternStep(mark=2 * number), *_moved(code, 1), _PatternStep(mark=2 * number + 1)]

    def _class(self) -> Takes:
        is_negated = self._peek() == "^"
        self._at += is_negated
        tests: list[Takes] = []
        while self._peek() != "]" or not tests:
            one = self._take()
            if one == "\\" and self._peek() in tuple("dwsDWS"):
                tests.append(self._escape())
                continue
            low = self._take() if one == "\\" else one
            high = low
            if self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                high = self._take()
                high = self._take() if high == "\\" else high
            tests.append(_between(low, high))
        self._at += 1
        return lambda text: any(test(text) for test in tests) != is_negated

    def _escape(self) -> Takes:
        one = self._take()
        kinds: dict[str, Takes] = {
            "d": lambda text: "0" <= text <= "9",
            "w": lambda text: text.isascii() and (text.isalnum() or text == "_"),
            "s": lambda text: text in " \t\n\r\f\v",
        }
        if one.lower() in kinds:
            test = kinds[one.lower()]
            return test if one.islower() else lambda text: not test(text)
        if one.isalnum():
            raise self._bad(f"\\{one}")
        return lambda text: text == one

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self) -> str:
        one = self._peek()
        if not one:
            raise self._bad("an end too early")
        self._at += 1
        return one

    def _check(self, code: _Code) -> None:
        if len(code) > STEPS_MAX:
            raise self._bad(f"more than {STEPS_MAX} steps")

    def _bad(self, why: str) -> BadPattern:
        return BadPattern(f"pattern {self._pattern!r} has {why}, at character {self._at}")


def _between(low: str, high: str) -> Takes:
    return lambda text: low <= text <= high


def _fork(inside: int, behind: int, is_lazy: bool) -> _PatternStep:
    return (
        _PatternStep(first=behind, second=inside)
        if is_lazy
        else _PatternStep(first=inside, second=behind)
    )


def _moved(code: _Code, by: int) -> _Code:
    return [
        one._replace(
            first=one.first + by if one.first >= 0 else -1,
            second=one.second + by if one.second >= 0 else -1,
        )
        for one in code
    ]
