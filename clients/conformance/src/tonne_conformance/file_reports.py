"""The report as JUnit XML, for CI servers, and as one HTML page that loads nothing."""

from html import escape
from pathlib import Path
from xml.etree import ElementTree as ET

from tonne_conformance.run import Outcome, Result, Verdict
from tonne_conformance.sections.unproven import UNPROVEN
from tonne_conformance.text_report import section_key, summary, text_report

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1b1f23 }
table { border-collapse: collapse; width: 100%; margin-bottom: 2rem }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid #d8dee4 }
td, code, pre { overflow-wrap: anywhere }
pre { white-space: pre-wrap; margin: .3rem 0 0 }
.passed { color: #116329 } .failed { color: #a40e26; font-weight: 700 } .skipped { color: #6a4d00 }
@media (prefers-color-scheme: dark) {
  body { background: #0d1117; color: #e6edf3 } th, td { border-color: #30363d }
  .passed { color: #56d364 } .failed { color: #ff7b72 } .skipped { color: #e3b341 }
}
"""


def write_reports(result: Result, folder: Path) -> list[Path]:
    """report.txt, junit.xml and report.html."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {"report.txt": text_report(result), "junit.xml": junit(result), "report.html": html(result)}
    paths = []
    for name, content in contents.items():
        path = folder / name
        path.write_text(content, encoding="utf-8")
        paths.append(path)
    return paths


def junit(result: Result) -> str:
    suite = ET.Element(
        "testsuite",
        name="tonne-conformance",
        tests=str(len(result.outcomes)),
        failures=str(len(result.with_verdict(Verdict.FAILED))),
        skipped=str(len(result.with_verdict(Verdict.SKIPPED))),
        errors="0",
        time=f"{result.seconds:.3f}",
    )
    for outcome in result.outcomes:
        check = outcome.check
        area, _, name = check.id.partition(".")
        case = ET.SubElement(suite, "testcase", classname=area, name=name, time=f"{outcome.seconds:.3f}")
        sentence = f"Section {check.section}: {check.sentence}"
        if outcome.verdict is Verdict.FAILED:
            failure = ET.SubElement(case, "failure", message=_xml_text(sentence))
            said = f"Expected: {outcome.expected}\nCame: {outcome.came}\nRequest: {outcome.request_id}"
            failure.text = _xml_text(said)
        elif outcome.verdict is Verdict.SKIPPED:
            ET.SubElement(case, "skipped", message=_xml_text(outcome.reason))
        output = ET.SubElement(case, "system-out")
        output.text = _xml_text(sentence)
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _xml_text(text: str) -> str:
    """Without control characters, which XML cannot contain."""
    return "".join(character if character >= " " or character in "\n\t" else "\ufffd" for character in text)


def html(result: Result) -> str:
    sections = sorted({outcome.check.section for outcome in result.outcomes}, key=section_key)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Conformance of {escape(result.url)}</title>",
        f"<style>{STYLE}</style></head><body>",
        "<h1>What this installation promises, and the proof</h1>",
        f"<p>{escape(summary(result))}</p>",
    ]
    for section in sections:
        found = [outcome for outcome in result.outcomes if outcome.check.section == section]
        passed = sum(outcome.verdict is Verdict.PASSED for outcome in found)
        parts.append(f"<h2>Section {escape(section)}: {passed} of {len(found)} passed</h2>")
        parts.append("<table><tr><th>Result</th><th>Sentence</th><th>Check</th></tr>")
        parts += [_row(outcome) for outcome in found]
        parts.append("</table>")
    parts.append("<h2>Not proven here</h2><table><tr><th>Section</th><th>Sentence</th><th>Why</th></tr>")
    parts += [
        f"<tr><td>{each.section}</td><td>{escape(each.sentence)}</td><td>{escape(each.reason)}</td></tr>"
        for each in UNPROVEN
    ]
    return "\n".join([*parts, "</table></body></html>", ""])


def _row(outcome: Outcome) -> str:
    details = ""
    if outcome.verdict is Verdict.FAILED:
        said = f"Expected: {outcome.expected}\nCame: {outcome.came}\nRequest: {outcome.request_id}"
        details = f"<pre>{escape(said)}</pre>"
    elif outcome.verdict is Verdict.SKIPPED:
        details = f"<pre>{escape(outcome.reason)}</pre>"
    verdict = outcome.verdict.value
    return (
        f'<tr><td class="{verdict}">{verdict}</td><td>{escape(outcome.check.sentence)}{details}</td>'
        f"<td><code>{escape(outcome.check.id)}</code></td></tr>"
    )
