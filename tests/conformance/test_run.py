"""Running checks, and the reports about them."""

import os
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest
from lxml import etree

from tests.conformance.own_installation import OwnInstallation
from tests.support.processes import ROOT
from tonne_conformance import cli
from tonne_conformance.checks import Check, Skip
from tonne_conformance.expect import Failed, equal, expect
from tonne_conformance.file_reports import html, junit, write_reports
from tonne_conformance.installation import Document, Service
from tonne_conformance.options import Options
from tonne_conformance.run import ALL_CHECKS, Outcome, Result, UnknownCheck, Verdict, _run_all, chosen
from tonne_conformance.sections.unproven import UNPROVEN
from tonne_conformance.text_report import markdown, section_key, text_report

OPTIONS = Options(url="https://offsets.example.com/v1", key="k")


def _check(name: str, run: object, *, slow: bool = False, needs: tuple[str, ...] = ()) -> Check:
    return Check(f"area.{name}", "2.1", f"The sentence of <{name}> & more.", run, needs, slow)  # type: ignore[arg-type]


def _good() -> None:
    expect(True, "nothing", "nothing")


def _bad() -> None:
    order = Document(status="placed")
    order.request_id = "req_1"
    equal(order["status"], "paid", order)


def _skipped() -> None:
    raise Skip("There is no card.")


def _broken() -> None:
    raise KeyError("quantity")


def _needs_live(live: object) -> None:
    raise AssertionError(live)


CHECKS = [
    _check("good", _good),
    _check("bad", _bad),
    _check("skipped", _skipped),
    _check("broken", _broken),
    _check("slow", _bad, slow=True),
    _check("live", _needs_live, needs=("live",)),
]


@pytest.fixture
def result() -> Result:
    fast = Options(url=OPTIONS.url, key="k", fast=True)
    return Result(OPTIONS.url, tuple(_run_all(CHECKS, {"live": None}, fast, lambda _: None)), 1.5)


def test_every_verdict(result: Result) -> None:
    verdicts = {outcome.check.id.removeprefix("area."): outcome.verdict.value for outcome in result.outcomes}
    assert verdicts == {
        "good": "passed",
        "bad": "failed",
        "skipped": "skipped",
        "broken": "failed",
        "slow": "skipped",
        "live": "skipped",
    }
    assert result.exit_code == 1
    passed = Result("", tuple(each for each in result.outcomes if each.verdict is not Verdict.FAILED), 1)
    assert passed.exit_code == 0


def test_the_text_names_sentence_expectation_and_request(result: Result) -> None:
    report = text_report(result)
    assert (
        "FAILED area.bad\n"
        "  Section 2.1: “The sentence of <bad> & more.”\n"
        "  Expected: paid\n"
        "  Came: placed\n"
        "  Request: req_1\n"
    ) in report
    assert "KeyError('quantity')" in report
    assert "  area.skipped: There is no card.\n" in report
    assert "Not proven here:\n" in report
    assert report.endswith("6 checks of https://offsets.example.com/v1 in 1.5 s: 1 passed, 2 failed, 3 skipped.\n")


def test_junit_can_be_read(result: Result) -> None:
    suite = etree.fromstring(junit(result).encode())
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("6", "2", "3")
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    failure = cases["bad"].find("failure")
    assert failure is not None
    assert failure.get("message") == "Section 2.1: The sentence of <bad> & more."
    assert failure.text == "Expected: paid\nCame: placed\nRequest: req_1"
    assert cases["skipped"].find("skipped") is not None


def test_junit_survives_control_characters() -> None:
    outcome = Outcome(CHECKS[0], Verdict.FAILED, 0.1, expected="x", came="\x00\x1b[0m")
    assert etree.fromstring(junit(Result("", (outcome,), 1)).encode()).find("testcase/failure") is not None


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in {"src", "href"}]


def test_the_page_loads_nothing_and_escapes(result: Result) -> None:
    page = html(result)
    assert _Page(page).addresses == []
    assert "script" not in _Page(page).tags
    assert "The sentence of &lt;bad&gt; &amp; more." in page
    assert "Section 2.1: 1 of 6 passed" in page


def test_three_reports_are_written(result: Result, tmp_path: Path) -> None:
    paths = write_reports(result, tmp_path / "reports")
    assert [path.name for path in paths] == ["report.txt", "junit.xml", "report.html"]
    assert all(path.stat().st_size > 500 for path in paths)


def test_checks_are_chosen_by_section_module_function_and_id() -> None:
    assert chosen(()) == list(ALL_CHECKS)
    assert {check.section for check in chosen(("2.1",))} == {"2.1"}
    assert {check.section for check in chosen(("6",))} == {"6.1", "6.2", "6.3", "6.4", "6.5", "6.6"}
    assert {check.area for check in chosen(("lists", "limits"))} == {"lists", "limits"}
    assert len(chosen(("orders.each_field_has_its_type",))) == 21
    assert len(chosen(("orders.each_field_has_its_type.id",))) == 1
    with pytest.raises(UnknownCheck, match="There is no check, module or section order"):
        chosen(("order",))


def test_what_is_shared_is_made_once_and_fails_for_everyone() -> None:
    service = Service(OPTIONS.url, "k")
    made: list[int] = []

    def make() -> str:
        made.append(1)
        return "thing"

    for _ in range(3):
        assert service.shared("thing", make) == "thing"
    assert made == [1]

    def refuse() -> None:
        made.append(2)
        raise Failed("a thing", "none")

    for _ in range(2):
        with pytest.raises(Failed, match="Expected a thing"):
            service.shared("other", refuse)
    assert made == [1, 2]
    service.close()


@pytest.mark.parametrize(("came", "expected"), [(1, True), (1, 1.0), ("1", 1), (None, ""), ([1], [True])])
def test_equal_values_have_the_same_type(came: object, expected: object) -> None:
    equal(came, came)
    with pytest.raises(Failed):
        equal(came, expected)


def test_sections_are_in_the_order_of_the_interface() -> None:
    assert sorted(["10", "2.1", "2", "4.10", "4.9"], key=section_key) == ["2", "2.1", "4.9", "4.10", "10"]


def test_the_list_has_every_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(f"`{check.id.removesuffix(f'.{check.row}')}`" in listed for check in ALL_CHECKS)
    assert all(f"`{check.row}`" in listed for check in ALL_CHECKS if check.row)
    assert listed == markdown(ALL_CHECKS, UNPROVEN)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--url and --key are required"),
        (["--only", "nothing"], "There is no check, module or section nothing"),
        (["--receiver", "http://x"], "neither HOST:PORT nor an https URL"),
        (["--certificate", "x.pem"], "belong together"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["--certificate-dir", str(tmp_path), *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_the_settings_are_printed_for_a_shell(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["--print-settings", "--certificate-dir", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert printed == (
        f"export TONNE_WEBHOOK_CA_FILE={tmp_path}/authority.pem\nexport TONNE_WEBHOOK_ALLOW_PRIVATE=127.0.0.0/8\n"
    )


def _webhooks(own: OwnInstallation) -> int:
    headers = {"Authorization": f"Bearer {own.options.key}"}
    return len(httpx.get(f"{own.options.url}/webhooks", headers=headers).json())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_deletes_its_webhooks(own: OwnInstallation, tmp_path: Path, number: signal.Signals) -> None:
    options = own.options
    given = ["--url", options.url, "--key", options.key, "--receiver", options.receiver.base_url, "--only", "timeouts"]
    folder = ["--certificate", str(own.certificate.chain), "--certificate-key", str(own.certificate.key)]
    source = ROOT / "clients" / "conformance" / "src"
    process = subprocess.Popen(
        [sys.executable, "-m", "tonne_conformance", *given, *folder],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(source)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            deadline = time.monotonic() + 60
            while _webhooks(own) < 2 and time.monotonic() < deadline:
                time.sleep(0.05)
            process.send_signal(number)
            output, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130, output
    assert "The webhooks of this run were deleted." in output
    assert _webhooks(own) == 0
