"""Makes alerts faster: divides every time in the rules and in the sample configurations by the same number.

A rule whose meaning would change is refused: the test would prove something else.
"""

import re
from collections.abc import Mapping
from typing import Any

import yaml  # type: ignore[import-untyped]

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_DURATION = re.compile(r"(\d+)(ms|[smhdw])")
_RANGE = re.compile(r"\[([^\]]*)\]")
_COMPARISON = re.compile(r"(==|!=|>=|<=|>|<)\s*(-?[\d.]+)")
_METRIC = re.compile(r"\b(?:[a-z]+:)?(?:tonne|process)_\w+(?::\w+)?\b|\bup\b")
_OF_TIME = ("for", "keep_firing_for")
_KNOWN = {"alert", "record", "expr", "labels", "annotations", *_OF_TIME}
# Metrics that grow with the time for which something is wrong: what they are compared with is a time.
_WAITING = re.compile(
    r"_(?:oldest|overdue|lag|delivery|blocking|in_doubt|last_look|waiting)_seconds(?:_bucket)?$|_timestamp_seconds$"
)
# Numbers, ratios, states, and the sizes of times, which do not grow with time.
_TIMELESS = re.compile(
    r"_total$|_ratio$|_status$|_depth$|_held$|_listening$|_success$|_drift_seconds$|_drift_grams$|^tonne_processes$|^up$"
    r"|^tonne_http_request_seconds_(?:bucket|count)$|^process_start_time_seconds$|:burn\w+$"
)
# A rate needs some samples in its range.
SAMPLES = 4


class NotScalable(Exception):
    """The rule cannot be made faster without changing what it says."""


def scale_rules(text: str, factor: float, scrape_s: float) -> str:
    rules: dict[str, Any] = yaml.safe_load(text)
    for group in rules["groups"]:
        if set(group) != {"name", "rules"}:
            raise NotScalable(f"{group['name']}: a group with an interval of its own")
        group["rules"] = [_scale_rule(rule, factor, scrape_s) for rule in group["rules"]]
    return str(yaml.safe_dump(rules, sort_keys=False))


def _scale_rule(rule: Mapping[str, Any], factor: float, scrape_s: float) -> dict[str, Any]:
    name = str(rule.get("alert") or rule.get("record"))
    if set(rule) - _KNOWN:
        raise NotScalable(f"{name}: {', '.join(sorted(set(rule) - _KNOWN))}")
    times = {key: scale_duration(rule[key], factor) for key in _OF_TIME if key in rule}
    return {**rule, "expr": scale_expression(name, rule["expr"], factor, scrape_s), **times}


def scale_expression(name: str, expression: str, factor: float, scrape_s: float) -> str:
    without_text = re.sub(r'"[^"]*"', '""', expression)
    if "@" in without_text or re.search(r"\boffset\b|\[[^\]]*:", without_text):
        raise NotScalable(f"{name}: an offset, or a query in a query")
    metrics = set(_METRIC.findall(without_text))
    waiting = {metric for metric in metrics if _WAITING.search(metric)}
    unknown = {metric for metric in metrics - waiting if not _TIMELESS.search(metric)}
    if unknown or not metrics or (waiting and waiting != metrics):
        raise NotScalable(f"{name}: it is not known whether {', '.join(sorted(unknown or metrics))} is a time")
    for found in _RANGE.findall(without_text):
        if _seconds(found) / factor < SAMPLES * scrape_s:
            raise NotScalable(f"{name}: [{found}] would have fewer than {SAMPLES} samples")
    scaled = _RANGE.sub(lambda found: f"[{scale_duration(found[1], factor)}]", expression)
    if not waiting:
        return scaled
    if not _COMPARISON.search(scaled):
        raise NotScalable(f"{name}: a time that is not compared with a number")
    return _COMPARISON.sub(lambda found: f"{found[1]} {float(found[2]) / factor:g}", scaled)


def scale_settings(text: str, factor: float, least_s: float = 0.0) -> str:
    """A configuration of Prometheus or Alertmanager: all its settings whose values are durations."""
    return re.sub(
        r"(?m)^(\s*\w+: )(\d+[smhd])$", lambda found: f"{found[1]}{scale_duration(found[2], factor, least_s)}", text
    )


def scale_duration(text: str, factor: float, least_s: float = 0.0) -> str:
    return f"{max(_seconds(text) / factor, least_s) * 1000:.0f}ms"


def _seconds(text: str) -> float:
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise NotScalable(f"{text} is not a duration")
    return sum(int(number) * _UNITS_S[unit] for number, unit in parts)
