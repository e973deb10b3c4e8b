"""Counters, histograms and gauges, their sum over processes, and their text."""

import pytest

from tonne.platform.process.telemetry.instruments import (
    Combine,
    CounterFamily,
    GaugeFamily,
    HistogramFamily,
    MetricKind,
    Snapshot,
    add_up,
    with_label,
    without_gauges,
)
from tonne.platform.process.telemetry.metrics_text import render


def test_the_text_has_every_series_with_its_labels() -> None:
    counter = CounterFamily("a_total", "Things.", "kind")
    counter.inc("x")
    counter.of("y").inc(2.5)
    seconds = HistogramFamily("b_seconds", "Time.", bounds=(0.1, 1.0))
    for value in (0.1, 0.2, 5.0):
        seconds.of().observe(value)
    gauge = GaugeFamily("c", "Now.", read=lambda: [((), 7)])
    assert render(each.snapshot() for each in (counter, seconds, gauge)).decode().splitlines() == [
        "# HELP a_total Things.",
        "# TYPE a_total counter",
        'a_total{kind="x"} 1',
        'a_total{kind="y"} 2.5',
        "# HELP b_seconds Time.",
        "# TYPE b_seconds histogram",
        'b_seconds_bucket{le="0.1"} 1',
        'b_seconds_bucket{le="1"} 2',
        'b_seconds_bucket{le="+Inf"} 3',
        "b_seconds_sum 5.3",
        "b_seconds_count 3",
        "# HELP c Now.",
        "# TYPE c gauge",
        "c 7",
    ]


def test_label_values_are_escaped() -> None:
    counter = CounterFamily("a_total", "Things.", "kind")
    counter.inc('a "quoted"\\\nvalue')
    assert r'a_total{kind="a \"quoted\"\\\nvalue"} 1' in render([counter.snapshot()]).decode()


def test_a_metric_without_a_series_is_still_described() -> None:
    assert (
        render([CounterFamily("a_total", "Things.", "kind").snapshot()]).decode().endswith("# TYPE a_total counter\n")
    )


def _one(name: str, kind: MetricKind, value: float, combine: Combine = Combine.SUM) -> Snapshot:
    return Snapshot(name, kind, "", ("process",), [(("api",), [value])], combine=combine)


@pytest.mark.parametrize(
    ("kind", "combine", "result"),
    [(MetricKind.COUNTER, Combine.SUM, 5), (MetricKind.GAUGE, Combine.SUM, 5), (MetricKind.GAUGE, Combine.MAX, 3)],
)
def test_processes_are_added_up(kind: MetricKind, combine: Combine, result: float) -> None:
    [total] = add_up([_one("a", kind, 2, combine), _one("a", kind, 3, combine)])
    assert total.series == [(("api",), [result])]


def test_series_that_only_one_process_has_are_kept() -> None:
    one, other = CounterFamily("a_total", "", "kind"), CounterFamily("a_total", "", "kind")
    one.inc("x")
    other.inc("y")
    [total] = add_up([one.snapshot(), other.snapshot()])
    assert dict(total.series) == {("x",): [1], ("y",): [1]}


def test_histograms_of_another_release_are_replaced_not_mixed() -> None:
    old, new = HistogramFamily("a", "", bounds=(1.0,)), HistogramFamily("a", "", bounds=(1.0, 2.0))
    old.of().observe(1)
    new.of().observe(2)
    [total] = add_up([old.snapshot(), new.snapshot()])
    assert (total.bounds, total.series) == ((1.0, 2.0), [((), [0, 1, 0, 2.0])])


def test_adding_up_changes_none_of_the_parts() -> None:
    parts = [_one("a", MetricKind.COUNTER, 2), _one("a", MetricKind.COUNTER, 3)]
    assert add_up(parts) == add_up(parts)


def test_an_ended_process_has_counters_and_no_gauges() -> None:
    kept = without_gauges([_one("a", MetricKind.COUNTER, 1), _one("b", MetricKind.GAUGE, 1)])
    assert [each.name for each in kept] == ["a"]


def test_a_label_is_added_to_every_series() -> None:
    counter = CounterFamily("a_total", "", "kind")
    counter.inc("x")
    labelled = with_label(counter.snapshot(), "process", "worker")
    assert (labelled.label_names, labelled.series) == (("process", "kind"), [(("worker", "x"), [1])])
