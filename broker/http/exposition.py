"""Readings as Prometheus's text format. The one file that names its client; runs in a thread."""

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from broker.http.decisions.catalogue import Metric, MetricKind
from broker.http.reading import Reading
from logstore.histogram import Histogram

__all__ = ["CONTENT_TYPE_PLAIN_0_0_4", "render"]

_INFINITY = "+Inf"


def render(metrics: Sequence[Metric], readings: Iterable[Reading]) -> bytes:
    """`metrics` are listed even without a reading; readings of the same labels are summed."""
    values: dict[Metric, dict[tuple[str, ...], float]] = {metric: {} for metric in metrics}
    histograms: dict[Metric, dict[tuple[str, ...], Histogram]] = {metric: {} for metric in metrics}
    for metric, labels, value in readings:
        if isinstance(value, Histogram):
            histograms[metric][labels] = value
        else:
            of_metric = values[metric]
            of_metric[labels] = of_metric.get(labels, 0) + value
    return generate_latest(_Families(values, histograms))


class _Families(Collector):
    def __init__(
        self,
        values: dict[Metric, dict[tuple[str, ...], float]],
        histograms: dict[Metric, dict[tuple[str, ...], Histogram]],
    ) -> None:
        self._values = values
        self._histograms = histograms

    def collect(self) -> Iterator[Family]:
        for metric, values in self._values.items():
            if metric.kind is MetricKind.HISTOGRAM:
                yield _histogram_family(metric, self._histograms[metric])
            else:
                yield _family(metric, values)
        yield from ProcessCollector(registry=None).collect()


def _family(metric: Metric, values: dict[tuple[str, ...], float]) -> Family:
    made = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
    family: CounterMetricFamily | GaugeMetricFamily
    family = made(metric.name, metric.meaning, labels=metric.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def _histogram_family(metric: Metric, histograms: dict[tuple[str, ...], Histogram]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    for labels, histogram in histograms.items():
        count, buckets = 0, []
        bounds = (*map(str, histogram.bounds), _INFINITY)
        for bound, more in zip(bounds, histogram.counts, strict=True):
            count += more
            buckets.append((bound, count))
        family.add_metric(labels, buckets, histogram.total)
    return family
