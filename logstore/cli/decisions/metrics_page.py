"""A page of metrics in Prometheus's text format, taken apart. Pure.

    name{label="value",…} value

Only what brokers write is understood: no time stamps, no exemplars. Lines of other forms are
passed over, so that a page of a newer broker can be read.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Labels = tuple[tuple[str, str], ...]
"""Names with values, in the order of the page."""

_LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([^ ]+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)",?')
_ESCAPED = re.compile(r"\\(.)")
_MEANT = {"n": "\n"}


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """By name of a series, the values by labels."""

    series: Mapping[str, Mapping[Labels, float]]

    def value(self, name: str, default: float = 0.0) -> float:
        """Of a metric without labels."""
        return self.series.get(name, {}).get((), default)

    def total(self, name: str) -> float:
        return sum(self.series.get(name, {}).values())

    def labelled(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        for labels, value in self.series.get(name, {}).items():
            yield dict(labels), value


def parse_metrics(text: str) -> MetricsPage:
    series: dict[str, dict[Labels, float]] = {}
    for line in text.split("\n"):  # names may hold what else ends a line
        match = None if line.startswith("#") else _LINE.fullmatch(line)
        if match is None:
            continue
        name, inside, value = match.groups()
        try:
            number = float(value)
        except ValueError:
            continue
        series.setdefault(name, {})[_labels(inside or "")] = number
    return MetricsPage(series)


def _labels(inside: str) -> Labels:
    return tuple((name, _meant(value)) for name, value in _LABEL.findall(inside))


def _meant(value: str) -> str:
    if "\\" not in value:
        return value
    return _ESCAPED.sub(lambda match: _MEANT.get(match[1], match[1]), value)
