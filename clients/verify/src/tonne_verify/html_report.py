"""The report as one HTML page for an auditor's file: the findings of the text report, in the language of the reader."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

from tonne_verify import __version__
from tonne_verify.languages import Language
from tonne_verify.policy import NONE
from tonne_verify.report import Check, ExitCode, Report, Results, Verdict, printable
from tonne_verify.verify_file import Trust

HEADLINES = {
    ExitCode.PROVEN: "Proven",
    ExitCode.FALSE: "False",
    ExitCode.UNREADABLE: "Not readable",
    ExitCode.NOT_PROVEN: "Not proven",
    ExitCode.TEST: "Test",
}
MEANINGS = {
    ExitCode.PROVEN: "Everything that the policy demands holds: signed, logged and cosigned.",
    ExitCode.FALSE: "Something does not hold, or a certificate was replaced or withdrawn. Do not rely on it.",
    ExitCode.UNREADABLE: (
        "A file could not be read, or a check that was asked for was not possible. Nothing is said about it."
    ),
    ExitCode.NOT_PROVEN: "Nothing was found to be false, but the policy demands more than these files prove.",
    ExitCode.TEST: "A test: no credits were retired.",
}
WITHOUT_WITNESS = (
    "Everything that the policy demands holds: signed and logged. No witness was demanded: only the seller vouches for"
    " the log."
)
BEYOND_FILES = (
    "Nobody can check from files that a project does what it says, that the registry keeps its word, or that the"
    " beneficiary is who the name says. Look the serial numbers up at the registry."
)
SMALL_PRINT = "In small print are sentences of the program in English, which may be more exact."
NOT_SIGNED = "This page was made by whoever ran the program, and is not signed: run it again to be sure."
# What needs attention first.
ORDER = [Verdict.FAILS, Verdict.NOT_PROVEN, Verdict.TEST, Verdict.HOLDS, Verdict.NOT_CHECKED]
STYLE = """
@page { size: A4; margin: 12mm 15mm }
body { font: 9.5pt/1.3 system-ui, "Liberation Sans", Arial, sans-serif; color: #1a1a1a; max-width: 180mm;
  margin: 8mm auto; padding: 0 4mm }
header { border-left: 3mm solid; padding: 2mm 4mm; margin-bottom: 5mm }
h1 { font-size: 19pt; margin: 0 }
h2 { font-size: 12pt; margin: 5mm 0 1.5mm; overflow-wrap: anywhere; break-after: avoid }
h3 { font-size: 9.5pt; margin: 2.5mm 0 1mm; break-after: avoid }
p { margin: 0 0 1.5mm } ul { margin: 0; padding-left: 5mm }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .7mm 2mm .7mm 0; border-top: 0.2mm solid #ccc;
  overflow-wrap: anywhere; font-weight: normal }
th { width: 40mm; color: #555 } td.v { width: 25mm; white-space: nowrap; font-weight: 600 } td.n { width: 23mm }
tr { break-inside: avoid } small { color: #555; font-size: 7.5pt; display: block } a { color: inherit }
code { font-family: "Liberation Mono", monospace; font-size: 8pt; overflow-wrap: anywhere }
.c0 { color: #17663a } .c1 { color: #b00020 } .c2, .c3, .c4 { color: #8a5200 } .c9 { color: #555 }
header > * { color: #1a1a1a } header h1 { color: inherit }
@media print { body { margin: 0; padding: 0; max-width: none; font-size: 8.4pt }
  th, td { padding: .5mm 2mm .5mm 0 } h2 { margin: 3mm 0 1mm } h3 { margin: 2mm 0 .5mm }
  header { margin-bottom: 3mm; padding: 1mm 4mm } small { font-size: 7pt }
  header, td.v, h2 span { print-color-adjust: exact; -webkit-print-color-adjust: exact } }
"""
COLOURS = {Verdict.HOLDS: 0, Verdict.FAILS: 1, Verdict.NOT_PROVEN: 3, Verdict.TEST: 4, Verdict.NOT_CHECKED: 9}


@dataclass(frozen=True, slots=True)
class Input:
    """A file that the auditor gave, with its SHA-256."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Setting:
    """What the findings depend on."""

    trust: Trust
    issuer: Input
    # None: the built-in policy.
    policy: Input | None
    at: datetime


def write_page(reports: Sequence[Report], together: Report | None, setting: Setting, code: str) -> str:
    return "\n".join(_Page(Language(code), setting).lines(reports, together)) + "\n"


@dataclass(frozen=True, slots=True)
class _Page:
    language: Language
    setting: Setting

    def lines(self, reports: Sequence[Report], together: Report | None) -> Iterator[str]:
        say = self.say
        worst = ExitCode.worst(each.exit_code for each in (*reports, *([together] if together else [])))
        yield f'<!doctype html>\n<html lang="{self.language.code}">\n<head>\n<meta charset="utf-8">'
        yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        yield '<meta name="viewport" content="width=device-width">'
        yield f"<title>{say('Verification report')}: {say(HEADLINES[worst])}</title>"
        yield f"<style>{STYLE}</style>\n</head>\n<body>"
        yield f'<header class="c{worst:d}"><h1>{say(HEADLINES[worst])}</h1><p>{say(self._meaning(worst))}</p>'
        if len(reports) > 1:
            yield f"<p>{say('Several files were checked. This is the most serious result of all.')}</p>"
        at = say("Checked on {1}", f"{self.setting.at:%Y-%m-%d %H:%M:%S} UTC")
        yield f"<p>{say('Verification report')} · {at} · {say('Exit code {1}', int(worst))}</p></header>"
        if len(reports) > 1:
            yield from self._summary(reports)
        if together is not None:
            # It compares what the log states, also of files that the policy does not accept.
            yield from self._section(together, 0, is_proven=worst is ExitCode.PROVEN)
        for number, report in enumerate(reports, start=1):
            yield from self._section(report, number, is_proven=report.exit_code is ExitCode.PROVEN)
        yield f"<h2>{say('Not checked')}</h2><p>{say(BEYOND_FILES)}</p>"
        yield from self._setting()
        small_print = "" if self.language.code == "en" else f"{say(SMALL_PRINT)} "
        yield f"<p><small>{small_print}{say(NOT_SIGNED)}</small></p>\n</body>\n</html>"

    def say(self, english: str, *values: object) -> str:
        return _escape(self.language.say(english, *values))

    def told(self, text: str, *, is_fact: bool = False, is_short: bool = False) -> str:
        """A sentence of the findings; in another language, the English one below, which is often more exact."""
        found = self.language.sentence(text) if is_fact else self.language.sentences(text)
        if found is None or found == text:
            return f'<span lang="en">{_escape(text)}</span>'
        return _escape(found) + ("" if is_fact or is_short else f'<small lang="en">{_escape(text)}</small>')

    def _meaning(self, code: ExitCode) -> str:
        is_alone = code is ExitCode.PROVEN and self.setting.trust.policy.quorum == NONE
        return WITHOUT_WITNESS if is_alone else MEANINGS[code]

    def _headline(self, report: Report) -> str:
        code = report.exit_code
        return f'<span class="c{code:d}">{self.say(HEADLINES[code])}</span>'

    def _summary(self, reports: Sequence[Report]) -> Iterator[str]:
        counts = Counter(each.exit_code for each in reports)
        yield f"<h2>{self.say('Files')}</h2><table>"
        totals = ", ".join(f"{self.say(HEADLINES[code])}: {counts[code]}" for code in sorted(counts))
        yield f"<tr><th>{self.say('Number of files')}: {len(reports)}</th><td>{totals}</td></tr>"
        for number, report in enumerate(reports, start=1):
            link = f'<a href="#f{number}">{_escape(report.file)}</a>'
            yield f'<tr><td class="v">{self._headline(report)}</td><td>{link}</td></tr>'
        yield "</table>"

    def _section(self, report: Report, number: int, *, is_proven: bool) -> Iterator[str]:
        name = _escape(report.file) if number else self.say("All files together")
        is_worse = report.exit_code is not ExitCode.PROVEN
        headline = f"{self._headline(report)} · " if is_proven or is_worse else ""
        yield f'<section><h2 id="f{number}">{headline}{name}</h2>'
        if report.sha256 is not None:
            yield f"<p><code>SHA-256 {report.sha256}</code></p>"
        if report.unreadable is not None:
            yield f"<p>{self.told(report.unreadable)}</p></section>"
            return
        if report.facts:
            title = "What is proven" if is_proven else "What is claimed, and is not proven"
            facts = "".join(f"<li>{self.told(each, is_fact=True)}</li>" for each in report.facts)
            yield f"<h3>{self.say(title)}</h3><ul>{facts}</ul>"
        if is_proven or is_worse:
            yield f"<h3>{self.say('Result')}</h3><p>{self.told(report.result(Results()), is_short=True)}</p>"
        if is_proven and number:
            times = [each.sentence for each in report.checks if each.name == "time"]
            rows = [("Proven to", self.say("everyone who trusts this policy and these keys of the seller"))]
            rows += [("Since when", _escape(self.language.sentences(each) or each)) for each in times]
            yield self._rows(rows)
        yield f"<h3>{self.say('Checks')}</h3><table>"
        for check in sorted(report.checks, key=lambda each: ORDER.index(each.verdict)):
            yield self._check(check)
        yield "</table></section>"

    def _check(self, check: Check) -> str:
        verdict = f'<td class="v c{COLOURS[check.verdict]}">{self.say(check.verdict)}</td>'
        told = self.told(check.sentence, is_short=check.verdict is Verdict.HOLDS)
        return f'<tr>{verdict}<td class="n">{self.say(check.name)}</td><td>{told}</td></tr>'

    def _setting(self) -> Iterator[str]:
        say, trust, policy = self.say, self.setting.trust, self.setting.trust.policy
        none = say("none: an option accepts that there is no witness" if policy.accept_no_witness else "none")
        logs = ", ".join(f"{each.key.name}+{each.key.id.hex()}" for each in policy.logs)
        witnesses = ", ".join(f"{each.name}+{each.id.hex()}" for each in policy.witness_keys)
        given = self.setting.policy
        rows = [
            ("Policy", say("the built-in policy") if given is None else _file(given)),
            ("Trusted logs", _escape(logs) or say("those of the issuer file")),
            ("Trusted witnesses", _escape(witnesses) or say("none")),
            ("Demanded cosignature", none if policy.quorum == NONE else _escape(policy.describe())),
            ("Longest delay", say("{1} hours", int(trust.max_delay.total_seconds()) // 3600)),
            ("Issuer", f"{_escape(trust.issuer.id)}<br>{_file(self.setting.issuer)}"),
            ("Asked the seller online", say("yes" if trust.online else "no")),
            ("Verifier", f"tonne-verify {_escape(__version__)}"),
        ]
        yield f"<h2>{say('Checked with')}</h2>{self._rows(rows)}"

    def _rows(self, rows: Sequence[tuple[str, str]]) -> str:
        cells = "".join(f"<tr><th>{self.say(title)}</th><td>{value}</td></tr>" for title, value in rows)
        return f"<table>{cells}</table>"


def _file(given: Input) -> str:
    return f"{_escape(given.name)}<br><code>SHA-256 {given.sha256}</code>"


def _escape(text: str) -> str:
    """Also without control characters, which could turn the direction of the text."""
    return escape(printable(text))
