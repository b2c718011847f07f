"""One value of one metric, as read on the event loop."""

from typing import NamedTuple

from broker.http.decisions.catalogue import Metric
from logstore.histogram import Histogram


class Reading(NamedTuple):
    metric: Metric
    labels: tuple[str, ...]
    value: float | Histogram
    """A histogram is a copy: it is rendered in a thread."""
