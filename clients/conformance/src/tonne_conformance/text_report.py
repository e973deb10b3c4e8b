"""The report as text, and the list of all checks as tables of Markdown."""

from collections.abc import Iterator, Sequence

from tonne_conformance.checks import Check, Unproven
from tonne_conformance.run import Outcome, Result, Verdict
from tonne_conformance.sections.unproven import UNPROVEN


def text_report(result: Result) -> str:
    """The failures first, then what was skipped and what cannot be proven, then the counts."""
    lines = []
    for outcome in result.with_verdict(Verdict.FAILED):
        lines += [*failure_lines(outcome), ""]
    skipped = result.with_verdict(Verdict.SKIPPED)
    if skipped:
        lines += ["Skipped:", *(f"  {outcome.check.id}: {outcome.reason}" for outcome in skipped), ""]
    lines += ["Not proven here:", *(f"  {each.section} “{each.sentence}” {each.reason}" for each in UNPROVEN), ""]
    if result.left_webhooks:
        lines += [f"These webhooks could not be deleted: {', '.join(result.left_webhooks)}", ""]
    return "\n".join([*lines, summary(result), ""])


def failure_lines(outcome: Outcome) -> list[str]:
    check = outcome.check
    lines = [
        f"FAILED {check.id}",
        f"  Section {check.section}: “{check.sentence}”",
        f"  Expected: {outcome.expected}",
        f"  Came: {outcome.came}",
    ]
    return [*lines, f"  Request: {outcome.request_id}"] if outcome.request_id else lines


def summary(result: Result) -> str:
    counts = {verdict: len(result.with_verdict(verdict)) for verdict in Verdict}
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return f"{len(result.outcomes)} checks of {result.url} in {result.seconds:.1f} s: {said}."


def by_section(checks: Sequence[Check]) -> dict[str, list[Check]]:
    """In the order of the interface."""
    sections = sorted({check.section for check in checks}, key=section_key)
    return {section: [check for check in checks if check.section == section] for section in sections}


def section_key(section: str) -> tuple[int, ...]:
    return tuple(int(part) for part in section.split("."))


def markdown(checks: Sequence[Check], unproven: Sequence[Unproven]) -> str:
    return "\n".join([*_tables(checks), *_unproven_table(unproven), ""])


def _tables(checks: Sequence[Check]) -> Iterator[str]:
    for section, found in by_section(checks).items():
        yield f"### Section {section}: {len(found)} checks"
        yield ""
        yield "| Sentence | Checks |"
        yield "|---|---|"
        sentences: dict[str, list[Check]] = {}
        for check in found:
            sentences.setdefault(check.sentence, []).append(check)
        for sentence, proofs in sentences.items():
            yield f"| {_cell(sentence)} | {_names(proofs)} |"
        yield ""


def _names(checks: Sequence[Check]) -> str:
    """The functions, each with the entries for which it is called."""
    rows: dict[str, list[str]] = {}
    for check in checks:
        rows.setdefault(check.id.removesuffix(f".{check.row}"), []).append(check.row)
    return ", ".join(
        f"`{function}`" + (f" ({', '.join(f'`{row}`' for row in found)})" if found != [""] else "")
        for function, found in rows.items()
    )


def _unproven_table(unproven: Sequence[Unproven]) -> Iterator[str]:
    yield "### Not proven here"
    yield ""
    yield "| Section | Sentence | Why |"
    yield "|---|---|---|"
    for each in unproven:
        yield f"| {each.section} | {_cell(each.sentence)} | {_cell(each.reason)} |"


def _cell(text: str) -> str:
    """Characters that mean something in Markdown and stand outside of code are escaped."""
    parts = text.split("`")
    escaped = [
        part if number % 2 else part.replace("<", "&lt;").replace("_", "\\_").replace("{", "&#123;")
        for number, part in enumerate(parts)
    ]
    return "`".join(escaped).replace("|", "\\|")
