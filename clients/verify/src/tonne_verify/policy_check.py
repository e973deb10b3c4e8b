"""Does the policy of the auditor accept the checkpoints that prove the entries?"""

from collections.abc import Iterable, Sequence

from tonne_verify.evidence import ProvenEntry
from tonne_verify.forks import describe_fork, find_forks
from tonne_verify.ledger import Ledger
from tonne_verify.notes import DASH
from tonne_verify.openings import StatementKind
from tonne_verify.policy import NONE, Policy
from tonne_verify.report import Report, Verdict

TEST_MODE = "This is a certificate of the test mode: no credits were retired."
NO_WITNESS = (
    "No witness is named in {policy}: the seller may show others another log. Name one that you trust with"
    " `tonne-verify trust add witness KEY`, or say --accept-no-witness."
)


def check_policy(report: Report, entries: Sequence[ProvenEntry], policy: Policy) -> None:
    for origin in sorted({each.log.origin for each in entries if not _is_trusted(each, policy)}):
        report.add("policy", Verdict.NOT_PROVEN, f"{policy.name} does not list the log {origin} with its key.")
    if any(each.opening.statement["mode"] != "live" for each in entries):
        report.add("mode", Verdict.TEST, TEST_MODE)
    for evidence in find_forks(entries):
        report.add("log", Verdict.FAILS, describe_fork(evidence))
    report.add("witnesses", *_check_witnesses(entries, policy))


def add_uncounted(report: Report, serials: Iterable[str]) -> None:
    for serial in serials:
        sentence = f"{serial} is not in a form that this program knows, so its tonnes were not counted."
        report.add("count", Verdict.NOT_PROVEN, sentence)


def add_conflicts(report: Report, entries: Sequence[ProvenEntry]) -> None:
    """Statements of one certificate that contradict each other, such as two states of one retirement."""
    ledger = Ledger()
    for entry in entries:
        if entry.kind in {StatementKind.ISSUED, StatementKind.RETIREMENT}:
            ledger.add_entry(f"entry {entry.index}", entry)
    for sentence in ledger.find_conflicts():
        report.add("count", Verdict.FAILS, sentence)


def _is_trusted(entry: ProvenEntry, policy: Policy) -> bool:
    is_final = entry.checkpoint.text == entry.log.final
    return policy.trusts_log({each.key for each in entry.signatures}, entry.log.origin, is_final=is_final)


def _check_witnesses(entries: Sequence[ProvenEntry], policy: Policy) -> tuple[Verdict, str]:
    cosigners = [{each.key for each in entry.signatures} for entry in entries]
    common = set.intersection(*cosigners)
    trusted = sorted(each.name for each in common.intersection(policy.witness_keys))
    named = {key for entry in entries for key in entry.log.witnesses}.intersection(common)
    by_seller = sorted(each.name for each in named.difference(policy.witness_keys))
    more = f" {', '.join(by_seller)} cosigned, but only the seller names this key." if by_seller else ""
    if policy.quorum == NONE:
        if policy.accept_no_witness:
            return Verdict.NOT_CHECKED, f"No witness is demanded: only the seller vouches for the log.{more}"
        return Verdict.NOT_PROVEN, NO_WITNESS.format(policy=policy.name) + more
    if all(policy.has_quorum(each) for each in cosigners):
        # Each checkpoint may have been cosigned by others of the quorum.
        by = sorted({each.name for each in set.union(*cosigners).intersection(policy.witness_keys)})
        return Verdict.HOLDS, f"Cosigned by {', '.join(by)}: others see the same log."
    false_names = sorted(_names_without_key(entries, policy))
    if false_names:
        more += f" A line in the name of {', '.join(false_names)} is not by the key that you trust."
    unsupported = sorted(key.name for key in policy.witness_keys if not key.is_supported)
    if unsupported:
        more += f" ML-DSA-44 keys cannot be verified here ({', '.join(unsupported)}): install a newer `cryptography`."
    sentence = f"{policy.name} demands a cosignature of {policy.describe()}; there is "
    return Verdict.NOT_PROVEN, sentence + (f"only that of {', '.join(trusted)}." if trusted else "none.") + more


def _names_without_key(entries: Sequence[ProvenEntry], policy: Policy) -> set[str]:
    """The witnesses whose name, but not whose key, is below a checkpoint."""
    return {
        key.name
        for entry in entries
        for key in policy.witness_keys
        if key not in {each.key for each in entry.signatures}
        and any(line.startswith(f"{DASH} {key.name} ") for line in entry.signature_lines)
    }
