"""Compares the proofs of files with the checkpoints that an auditor has seen: `tonne-verify FILE --state STATE`."""

from pathlib import Path

from tonne_verify.audit_state import AuditState
from tonne_verify.errors import NotFetched, NotProven
from tonne_verify.evidence import ProvenEntry
from tonne_verify.forks import find_fork, keep_fork
from tonne_verify.log_reader import LogReader
from tonne_verify.report import Report, Verdict


def check_seen(report: Report, state: AuditState) -> None:
    """The tree that proves an entry continues the one that was seen, or the other way round: both have the entry."""
    proven = {(each.log.origin, each.checkpoint.size, each.checkpoint.root): each for each in report.entries}
    for entry in proven.values():
        _compare(report, state, entry)


def _compare(report: Report, state: AuditState, entry: ProvenEntry) -> None:
    origin = entry.log.origin
    seen = state.logs.get(origin)
    if seen is None:
        report.add("seen", Verdict.NOT_CHECKED, f"You have not seen the log {origin}: audit it first.")
        return
    try:
        evidence = find_fork(LogReader(seen.url), seen.checkpoint, entry.proof.checkpoint, seen.verifier_keys)
    except NotFetched as error:
        report.add("seen", Verdict.NOT_CHECKED, str(error))
        report.incomplete = True
    except NotProven:
        sentence = f"The log {origin} does not serve the tree that it has signed, so it cannot be compared."
        report.add("seen", Verdict.NOT_PROVEN, sentence)
    else:
        if evidence is not None:
            report.add("seen", Verdict.FAILS, keep_fork(evidence, Path()))
        else:
            sentence = f"The entry is also in the tree with {seen.head.size} entries that you saw at {seen.seen_at}."
            if entry.index >= seen.head.size:
                sentence = f"The tree continues the one with {seen.head.size} entries that you saw at {seen.seen_at}."
            report.add("seen", Verdict.HOLDS, sentence)
