"""Reads the text format of Prometheus."""

import re

_SAMPLE = re.compile(r"^([a-z_:]+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse_samples(text: str) -> Samples:
    return {(name, frozenset(_LABEL.findall(labels))): float(value) for name, labels, value in _SAMPLE.findall(text)}


def total(samples: Samples, name: str, **labels: str) -> float:
    """The sum of all series of this name that have these labels."""
    return sum(value for (each, found), value in samples.items() if each == name and labels.items() <= found)
