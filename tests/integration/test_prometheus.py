"""The alert rules and the board, checked by Prometheus' own tool and against the metrics of `tonne serve`."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml  # type: ignore[import-untyped]

from tests.integration.programs import find_program
from tests.support.command import wait_until
from tests.support.processes import HOST, ROOT, Process, free_port
from tests.support.samples import parse_samples, total

RULES = ROOT / "deploy" / "prometheus"
BOARD = ROOT / "deploy" / "grafana" / "tonne.json"
# Prometheus itself adds these.
OF_PROMETHEUS = {"up"}
METRIC = re.compile(r"(?<!:)\b((?:tonne|process)_[a-z_]+)\b(?:\{([^}]*)\})?")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
GROUPED = re.compile(r"\bby \(([^)]*)\)")


def _promtool(*words: str, folder: Path = RULES, text: str | None = None) -> str:
    command = [find_program("promtool"), *words]
    done = subprocess.run(command, cwd=folder, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_sample_configuration_and_the_rules_are_valid() -> None:
    assert "rules found" in _promtool("check", "rules", "--lint-fatal", "alerts.yml")
    _promtool("check", "config", "prometheus.yml")
    command = [find_program("amtool"), "check-config", "alertmanager.yml"]
    done = subprocess.run(command, cwd=RULES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_when_it_should_and_not_before() -> None:
    assert "SUCCESS" in _promtool("test", "rules", "alerts_test.yml")
    tested = (RULES / "alerts_test.yml").read_text(encoding="utf-8")
    for name in re.findall(r"- alert: (\w+)", (RULES / "alerts.yml").read_text(encoding="utf-8")):
        firing = re.search(rf"alertname: {name}\n\s+exp_alerts:", tested)
        assert firing, f"no test in which {name} fires"


def test_a_rule_that_is_removed_makes_a_test_fail(tmp_path: Path) -> None:
    """One after the other, each with the tests and the other rules that have to do with it."""
    rules = yaml.safe_load((RULES / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    tests = yaml.safe_load((RULES / "alerts_test.yml").read_text(encoding="utf-8"))["tests"]
    all_rules = [rule for group in rules for rule in group["rules"]]
    recordings, alerts = ([rule for rule in all_rules if kind in rule] for kind in ("record", "alert"))
    files: dict[str, Path] = {}
    for removed in all_rules:
        concerned = [removed] if removed in alerts else [rule for rule in alerts if removed["record"] in rule["expr"]]
        names = {rule["alert"] for rule in concerned}
        used = " ".join(rule["expr"] for rule in concerned)
        left = [*(rule for rule in recordings if rule["record"] in used), *alerts[:3], *concerned]
        name = removed.get("alert") or removed["record"].replace(":", "_")
        kept = [rule for rule in left if rule is not removed]
        content = {"groups": [{"name": "left", "rules": kept}]}
        (tmp_path / f"{name}.yml").write_text(json.dumps(content), encoding="utf-8")
        # Only with `unless`, a recording also keeps alerts from firing.
        with_quiet = bool(re.search(rf"unless (?:max_over_time\()?{removed.get('record')}\b", used))
        cases = ((test, _about(test, names, with_quiet=with_quiet)) for test in tests)
        about = [{**test, "alert_rule_test": found} for test, found in cases if found]
        about_rule: dict[str, object] = {"rule_files": [f"{name}.yml"], "evaluation_interval": "1m", "tests": about}
        files[name] = tmp_path / f"{name}_test.yml"
        files[name].write_text(json.dumps(about_rule), encoding="utf-8")
    command = [find_program("promtool"), "test", "rules", *map(str, files.values())]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    said = re.split(r"Unit Testing:  ", done.stdout)[1:]
    assert len(said) == len(files) > 40
    unnoticed = [name for name, text in zip(files, said, strict=True) if "FAILED" not in text or "got:" not in text]
    assert unnoticed == []


def _about(test: dict[str, Any], alerts: set[str], *, with_quiet: bool) -> list[dict[str, Any]]:
    cases = [each for each in test["alert_rule_test"] if each["alertname"] in alerts]
    return cases if with_quiet else [each for each in cases if "exp_alerts" in each]


def test_every_recording_is_used_and_every_cause_silences_its_symptoms() -> None:
    """So that a rule that is removed fails a test: alerts are tested one by one, recordings only through them."""
    rules = (RULES / "alerts.yml").read_text(encoding="utf-8")
    recorded = re.findall(r"- record: (\S+)", rules)
    assert recorded
    for name in recorded:
        assert len(re.findall(rf"{name}\b", rules)) > 1, name
    causes = set(re.findall(r"\bcause: (\w+)", rules))
    sample = (RULES / "alertmanager.yml").read_text(encoding="utf-8")
    assert set(re.findall(r'cause="(\w+)"', sample)) == causes
    assert set(re.findall(r"\(\.\*,\)\?(\w+)", sample)) == causes
    # That of orders is named by the group of the routes.
    assert set(re.findall(r"[a-z]+", " ".join(re.findall(r'symptom_of: ([a-z,"]+)', rules)))) == causes - {"order"}


def test_a_cause_lasts_for_longer_than_its_symptoms_look_back() -> None:
    """Otherwise the errors of an outage that is over page somebody, if there was another one some hours before."""
    rules = yaml.safe_load((RULES / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    alerts = {rule["alert"]: rule for group in rules for rule in group["rules"] if "alert" in rule}
    failing = alerts["TonneRequestsFail"]
    # Both clauses need errors in their shorter window.
    assert {"burn5m", "burn30m"} <= set(re.findall(r"burn\w+", failing["expr"]))
    silencing = {"order", *failing["labels"]["symptom_of"].split(",")}
    causes = {name: rule for name, rule in alerts.items() if rule["labels"].get("cause") in silencing}
    lasting = {name: int(rule["keep_firing_for"].removesuffix("m")) for name, rule in causes.items()}
    assert {name: minutes for name, minutes in lasting.items() if minutes <= 30} == {}
    assert len(lasting) > 3


def _board() -> dict[str, Any]:
    board: dict[str, Any] = json.loads(BOARD.read_text(encoding="utf-8"))
    return board


def _board_queries() -> list[str]:
    return [target["expr"] for panel in _board()["panels"] for target in panel.get("targets", ())]


def test_every_query_of_the_board_is_valid(tmp_path: Path) -> None:
    rules = []
    for number, query in enumerate(_board_queries()):
        plain = query.replace("$__rate_interval", "5m").replace("$instance", ".*").replace("$mode", "live")
        rules.append({"record": f"board:query:{number}", "expr": plain})
    # JSON is YAML, too.
    (tmp_path / "board.yml").write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}), encoding="utf-8")
    assert f"{len(rules)} rules found" in _promtool("check", "rules", "board.yml", folder=tmp_path)


def test_the_board_can_be_imported_for_any_data_source() -> None:
    board = _board()
    assert board["id"] is None
    variables = {variable["name"]: variable["type"] for variable in board["templating"]["list"]}
    assert variables["datasource"] == "datasource"
    shown = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert len(shown) > 25
    assert {panel["datasource"]["uid"] for panel in shown} == {"${datasource}"}
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len(set(places)) == len(places)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The metrics of a running service that has completed an order."""
    folder = tmp_path_factory.mktemp("serve")
    port, metrics_port = free_port(), free_port()
    settings = {"data_dir": folder / "data", "port": port, "metrics_port": metrics_port}
    service = Process("tonne", "serve", "--demo=empty", settings=settings, log=folder / "log")
    try:
        service.wait_until_ready(port)
        key = json.loads((folder / "data" / "demo.json").read_text())["test"]["api_key"]
        placed = httpx.post(
            f"http://{HOST}:{port}/v1/orders/by-mass",
            headers={"Authorization": f"Bearer {key}"},
            json={"mass": {"amount": "1", "unit": "t"}},
        )
        assert placed.status_code == 201

        def scrape() -> str:
            return httpx.get(f"http://{HOST}:{metrics_port}/metrics").text

        def is_charged() -> bool:
            samples = parse_samples(scrape())
            return total(samples, "tonne_gateway_requests_total", process="worker", operation="charge") > 0

        wait_until(is_charged, 30, "the order is charged, and the worker has reported it")
        yield scrape()
    finally:
        service.stop()


def test_the_metrics_are_well_formed(text: str) -> None:
    _promtool("check", "metrics", text=text)


def _labels_by_metric(text: str) -> dict[str, set[str]]:
    """The labels of every series, histograms included: those of the samples, if there are any."""
    found: dict[str, set[str]] = {}
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE):
        for suffix in ("_bucket", "_sum", "_count") if kind == "histogram" else ("",):
            found[name + suffix] = set()
    for name, labels in parse_samples(text):
        found[name] |= {label for label, _ in labels}
    return found


@pytest.mark.parametrize("source", ["rules", "board"])
def test_every_metric_of_the_rules_and_the_board_exists(text: str, source: str) -> None:
    queries = _board_queries()
    if source == "rules":
        # Expressions only: `alerts_test.yml` proves that they are used as they are.
        queries = re.findall(
            r"expr: (?:\|\n)?(.*?)(?=\n(?:        (?:for|keep_firing_for|labels):|      - |\n))",
            (RULES / "alerts.yml").read_text(encoding="utf-8"),
            re.DOTALL,
        )
    assert len(queries) > 20
    known = _labels_by_metric(text)
    for query in queries:
        named = METRIC.findall(query)
        assert named or any(name in query for name in OF_PROMETHEUS), query
        for name, matchers in named:
            assert name in known, name
            requested = set(LABEL.findall(re.sub(r'"[^"]*"', '""', matchers)))
            requested |= {label.strip() for group in GROUPED.findall(query) for label in group.split(",")}
            if known[name]:
                assert requested <= known[name] | {"instance", "job"}, (name, query)


def test_both_kinds_of_process_report(text: str) -> None:
    samples = parse_samples(text)
    assert total(samples, "tonne_processes", process="api") == 1
    assert total(samples, "tonne_processes", process="worker") == 1
    assert total(samples, "tonne_job_runs_total", process="worker", outcome="worked") > 0
    assert total(samples, "tonne_notifications_received_total", process="worker") > 0
    assert total(samples, "tonne_notifications_sent_total", process="api", outcome="sent") > 0
    assert total(samples, "tonne_http_requests_total", process="api", route="/v1/orders/by-mass", status="201") == 1
    assert total(samples, "tonne_queue_read_success") == 1


def test_the_reference_of_operations_lists_exactly_these_metrics(text: str) -> None:
    page = (ROOT / "docs" / "operations-reference.md").read_text(encoding="utf-8")
    table = page.partition("<!-- metrics -->")[2].partition("<!-- /metrics -->")[0]
    rows = [row.split(" | ") for row in table.splitlines() if row.startswith("| `")]
    listed = {name: set(row[1].split(", ")) - {""} for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert set(listed) == set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
    for name, labels in _labels_by_metric(text).items():
        family = re.sub(r"_(bucket|sum|count)$", "", name) if name not in listed else name
        if labels:
            assert labels - {"le"} == listed[family], name
