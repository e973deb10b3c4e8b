"""Counters, histograms and gauges in memory, and their sum over several processes.

Updating one costs well under a microsecond, so that it can be done for every request. Label values are fixed words of
the code, never data of clients: a series is never removed.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

# Upper bounds in seconds.
FAST_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
SLOW_BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)

Labels = tuple[str, ...]


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Combine(StrEnum):
    """How the gauges of several processes become one."""

    SUM = "sum"
    MAX = "max"


class Snapshot(msgspec.Struct, array_like=True):
    """The values of all series of one metric.

    The values of a histogram are the counts per bucket, the last one without a bound, and then the sum.
    """

    name: str
    kind: MetricKind
    help: str
    label_names: Labels
    series: list[tuple[Labels, list[float]]]
    bounds: tuple[float, ...] = ()
    combine: Combine = Combine.SUM


class Metric(Protocol):
    def snapshot(self) -> Snapshot: ...


class Counter:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1) -> None:
        self.value += amount


class Histogram:
    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.sum += value


class CounterFamily:
    """A counter per combination of label values."""

    def __init__(self, name: str, help_text: str, *label_names: str) -> None:
        self._name, self._help, self._label_names = name, help_text, label_names
        self._counters: dict[Labels, Counter] = {} if label_names else {(): Counter()}

    def of(self, *labels: str) -> Counter:
        counter = self._counters.get(labels)
        if counter is None:
            counter = self._counters[labels] = Counter()
        return counter

    def inc(self, *labels: str) -> None:
        self.of(*labels).inc()

    def snapshot(self) -> Snapshot:
        series = [(labels, [counter.value]) for labels, counter in self._counters.items()]
        return Snapshot(self._name, MetricKind.COUNTER, self._help, self._label_names, series)


class HistogramFamily:
    """A histogram per combination of label values."""

    def __init__(self, name: str, help_text: str, *label_names: str, bounds: tuple[float, ...]) -> None:
        self._name, self._help, self._label_names, self._bounds = name, help_text, label_names, bounds
        self._histograms: dict[Labels, Histogram] = {} if label_names else {(): Histogram(bounds)}

    def of(self, *labels: str) -> Histogram:
        histogram = self._histograms.get(labels)
        if histogram is None:
            histogram = self._histograms[labels] = Histogram(self._bounds)
        return histogram

    def snapshot(self) -> Snapshot:
        series = [(labels, [*each.counts, each.sum]) for labels, each in self._histograms.items()]
        return Snapshot(self._name, MetricKind.HISTOGRAM, self._help, self._label_names, series, self._bounds)


class GaugeFamily:
    """Values that are read when they are asked for: `read` returns a value per combination of label values."""

    def __init__(
        self,
        name: str,
        help_text: str,
        *label_names: str,
        read: Callable[[], Iterable[tuple[Labels, float]]],
        combine: Combine = Combine.SUM,
    ) -> None:
        self._name, self._help, self._label_names = name, help_text, label_names
        self._read, self._combine = read, combine

    def snapshot(self) -> Snapshot:
        series = [(labels, [value]) for labels, value in self._read()]
        return Snapshot(self._name, MetricKind.GAUGE, self._help, self._label_names, series, combine=self._combine)


def with_label(snapshot: Snapshot, name: str, value: str) -> Snapshot:
    """The same series with one more label, in front."""
    series = [((value, *labels), values) for labels, values in snapshot.series]
    return msgspec.structs.replace(snapshot, label_names=(name, *snapshot.label_names), series=series)


def without_gauges(snapshots: Iterable[Snapshot]) -> list[Snapshot]:
    """What remains true of a process that has ended."""
    return [each for each in snapshots if each.kind is not MetricKind.GAUGE]


def add_up(snapshots: Iterable[Snapshot]) -> list[Snapshot]:
    """One snapshot per metric, in order of first appearance."""
    totals: dict[str, Snapshot] = {}
    series: dict[str, dict[Labels, list[float]]] = {}
    for each in snapshots:
        total = totals.get(each.name)
        # Only releases differ in this, and counts of different buckets cannot be added: the last one counts.
        if total is None or (total.bounds, total.label_names) != (each.bounds, each.label_names):
            totals[each.name], series[each.name] = each, {}
        known = series[each.name]
        for labels, values in each.series:
            pairs = zip(known.get(labels, values), values, strict=True)
            if labels not in known:
                known[labels] = values
            elif each.combine is Combine.MAX:
                known[labels] = [max(pair) for pair in pairs]
            else:
                known[labels] = [sum(pair) for pair in pairs]
    return [msgspec.structs.replace(each, series=list(series[name].items())) for name, each in totals.items()]
