"""Verifies the list of openings that an account publishes on its Sustainability page (`…/openings.json`)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tonne_verify.agreement import check_quantities, check_shape, grams, show_tonnes
from tonne_verify.canonical import read_json
from tonne_verify.errors import NotProven
from tonne_verify.evidence import ProvenEntry, check_evidence
from tonne_verify.issuer import Issuer
from tonne_verify.ledger import Ledger
from tonne_verify.openings import StatementKind
from tonne_verify.policy import Policy
from tonne_verify.policy_check import add_uncounted, check_policy
from tonne_verify.report import Report, Verdict
from tonne_verify.timeline import check_times

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Listed:
    """A certificate whose entries are proven."""

    issued: ProvenEntry
    retirements: list[ProvenEntry]


def read_openings(data: bytes) -> Json | None:
    """None if the file is something else."""
    if not data.lstrip().startswith(b"{"):
        return None
    document = read_json(data)
    return document if isinstance(document.get("data"), list) and "next_cursor" in document else None


def verify_openings(report: Report, document: Json, issuer: Issuer, policy: Policy, max_delay: timedelta) -> None:
    found = report.attempt(
        "log",
        lambda: [_check_certificate(each, issuer, policy) for each in document["data"]],
        lambda found: f"Everything that the {len(found)} certificates of the list state is in the log.",
    )
    if found is None:
        return
    report.facts += [
        f"Certificate {each.issued.subject}: {each.issued.facts['total_quantity']} t CO2e." for each in found
    ]
    counted = report.attempt(
        "retirements",
        lambda: _check_quantities(found, report.file),
        lambda result: (
            f"{result[0]} t CO2e in all. The log has the retirement of each line, and the certificates of the list do"
            " not count a tonne twice."
        ),
    )
    add_uncounted(report, counted[1] if counted is not None else ())
    entries = [entry for each in found for entry in (each.issued, *each.retirements)]
    if entries:
        check_policy(report, entries, policy)
        _add_times(report, found, policy, max_delay)
    report.entries += entries
    if document["next_cursor"] is not None:
        sentence = f"The list goes on. Download the next part with ?after={document['next_cursor']}."
        report.add("list", Verdict.NOT_CHECKED, sentence)


def _add_times(report: Report, found: Sequence[_Listed], policy: Policy, max_delay: timedelta) -> None:
    """One line for all, or one for each that is not in order."""
    results = [
        (each.issued.subject, *check_times([each.issued, *each.retirements], policy, max_delay)) for each in found
    ]
    not_in_order = [each for each in results if each[1] in {Verdict.FAILS, Verdict.NOT_PROVEN}]
    for number, verdict, sentence in not_in_order:
        report.add("time", verdict, f"Certificate {number}: {sentence}")
    if any(verdict is Verdict.NOT_CHECKED for _, verdict, _ in results):
        report.add("time", Verdict.NOT_CHECKED, "No witness confirms since when the certificates exist.")
    elif not not_in_order:
        report.add("time", Verdict.HOLDS, "Each certificate was cosigned soon after the date that it claims.")


def _check_certificate(listed: Any, issuer: Issuer, policy: Policy) -> _Listed:
    evidence = listed.get("evidence") if isinstance(listed, dict) else None
    if not isinstance(evidence, list) or not evidence:
        raise NotProven("A certificate of the list has no evidence.")
    issued, *others = [check_evidence(each, issuer, policy) for each in evidence]
    if issued.kind is not StatementKind.ISSUED or issued.subject != listed.get("number"):
        raise NotProven(f"The evidence of {listed.get('number')!r} is that of another certificate.")
    for each in others:
        if each.kind is not StatementKind.RETIREMENT:
            raise NotProven(
                f"Certificate {issued.subject} was replaced or withdrawn at {each.opening.statement['at']}."
            )
    return _Listed(issued, others)


def _check_quantities(found: Iterable[_Listed], name: str) -> tuple[str, list[str]]:
    """Returns the tonnes of all certificates, and the serials that cannot be counted."""
    ledger, total, uncounted = Ledger(), 0, []
    for each in found:
        number = each.issued.subject
        if number in ledger.certificates:
            raise NotProven(f"Certificate {number} is listed twice.")
        subject = check_shape(each.issued.facts)
        uncounted += check_quantities(subject, [entry.facts for entry in each.retirements])
        total += grams(subject["total_quantity"])
        for entry in (each.issued, *each.retirements):
            ledger.add_entry(name, entry)
    conflicts = ledger.find_conflicts()
    if conflicts:
        raise NotProven(" ".join(conflicts))
    return show_tonnes(total), uncounted
