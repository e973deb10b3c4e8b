"""Rules are made faster for the test with Prometheus, and refused if that would change what they say."""

import pytest
import yaml  # type: ignore[import-untyped]

from chaos.alerts.faults import FAULTS
from chaos.alerts.scaling import NotScalable, scale_expression, scale_rules, scale_settings
from chaos.alerts.scenarios import SHORT
from tests.architecture.source import ROOT

RULES = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text(encoding="utf-8")


def test_every_time_of_a_rule_is_divided_and_nothing_else() -> None:
    for before, after in (
        ("up == 0", "up == 0"),
        ("sum(increase(tonne_a_total[5m])) > 3", "sum(increase(tonne_a_total[10000ms])) > 3"),
        ('max(tonne_queue_oldest_seconds{queue="a"}) > 3600', 'max(tonne_queue_oldest_seconds{queue="a"}) > 120'),
        ("time() - max(tonne_a_timestamp_seconds) > 900", "time() - max(tonne_a_timestamp_seconds) > 30"),
        ("max(tonne_clock_drift_seconds) > 5", "max(tonne_clock_drift_seconds) > 5"),
    ):
        assert scale_expression("Rule", before, 30, 1) == after
    assert scale_settings("  group_wait: 1m\n  receiver: pages\n", 30) == "  group_wait: 2000ms\n  receiver: pages\n"
    assert scale_settings("  scrape_interval: 15s\n", 30, 1) == "  scrape_interval: 1000ms\n"


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("sum(rate(tonne_a_total[1m])) > 0", "fewer than 4 samples"),
        ("tonne_a_total offset 5m > 0", "an offset"),
        ("max_over_time(tonne_a_total[1h:1m]) > 0", "a query in a query"),
        ("tonne_wait_seconds > 60", "not known whether tonne_wait_seconds is a time"),
        ("max(tonne_queue_oldest_seconds) > max(tonne_queue_overdue_seconds)", "not compared with a number"),
        ("vector(1)", "not known"),
    ],
)
def test_a_rule_that_cannot_be_made_faster_is_refused(expression: str, reason: str) -> None:
    with pytest.raises(NotScalable, match=reason):
        scale_expression("Rule", expression, 30, 1)


def test_the_rules_of_the_repository_can_be_made_faster() -> None:
    rules = [rule for group in yaml.safe_load(RULES)["groups"] for rule in group["rules"]]
    scaled = [rule for group in yaml.safe_load(scale_rules(RULES, 30, 1))["groups"] for rule in group["rules"]]
    assert [set(rule) for rule in scaled] == [set(rule) for rule in rules]
    with pytest.raises(NotScalable, match="interval of its own"):
        scale_rules(RULES.replace("- name: tonne-requests", "- name: tonne-requests\n    interval: 1m"), 30, 1)
    with pytest.raises(NotScalable, match="limit"):
        scale_rules(RULES.replace("expr: up", "limit: 3\n        expr: up"), 30, 1)


def test_each_fault_raises_another_alert_of_the_rules() -> None:
    alerts = [fault.alert for fault in FAULTS]
    assert len(set(alerts)) == len(alerts) == 13
    assert set(alerts) <= {rule.get("alert") for group in yaml.safe_load(RULES)["groups"] for rule in group["rules"]}
    assert set(SHORT) <= {fault.name for fault in FAULTS}
