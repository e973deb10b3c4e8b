"""The text format of Prometheus (version 0.0.4)."""

import math
from collections.abc import Iterable, Iterator
from itertools import accumulate

from tonne.platform.process.telemetry.instruments import Labels, MetricKind, Snapshot

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(snapshots: Iterable[Snapshot]) -> bytes:
    return "".join(line for snapshot in snapshots for line in _lines(snapshot)).encode()


def _lines(snapshot: Snapshot) -> Iterator[str]:
    name = snapshot.name
    # Also for a metric without series yet: it documents itself.
    yield f"# HELP {name} {snapshot.help}\n# TYPE {name} {snapshot.kind}\n"
    for labels, values in snapshot.series:
        if snapshot.kind is not MetricKind.HISTOGRAM:
            yield f"{name}{_braces(snapshot.label_names, labels)} {_number(values[0])}\n"
            continue
        *counts, total = values
        bounds = [*map(_number, snapshot.bounds), "+Inf"]
        running = list(accumulate(counts))
        for bound, count in zip(bounds, running, strict=True):
            yield f"{name}_bucket{_braces((*snapshot.label_names, 'le'), (*labels, bound))} {_number(count)}\n"
        braces = _braces(snapshot.label_names, labels)
        yield f"{name}_sum{braces} {_number(total)}\n{name}_count{braces} {_number(running[-1])}\n"


def _braces(names: Labels, values: Labels) -> str:
    pairs = [f'{name}="{_escape(value)}"' for name, value in zip(names, values, strict=True)]
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(value)
