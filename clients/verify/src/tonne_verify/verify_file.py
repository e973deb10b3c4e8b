"""Verifies a certificate (a PDF with its attachments, or a verifiable credential), or a list of openings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from tonne_verify.agreement import check_agreement, check_quantities, check_shape, names_without_proof
from tonne_verify.canonical import read_json
from tonne_verify.credentials import check_credential
from tonne_verify.errors import NotProven
from tonne_verify.evidence import ProvenEntry, check_evidence
from tonne_verify.forks import FORK_FORMAT, check_fork
from tonne_verify.issuer import ISSUER_FORMAT, Issuer
from tonne_verify.notes import VerifierKey
from tonne_verify.openings import StatementKind
from tonne_verify.openings_list import read_openings, verify_openings
from tonne_verify.pdf import check_pdf, read_attachments
from tonne_verify.policy import Policy
from tonne_verify.policy_check import TEST_MODE, add_conflicts, add_uncounted, check_policy
from tonne_verify.proofs import HEADER
from tonne_verify.report import Report, Verdict
from tonne_verify.status import CredentialState, fetch_state
from tonne_verify.timeline import MAX_DELAY, check_times, describe_times
from tonne_verify.times import Signing
from tonne_verify.vocabulary import check_context

CREDENTIAL_FILE = "credential.json"
PROOF_FILE = "certificate.tlog-proof"
CERTIFICATE_TYPE = "CarbonRetirementCertificate"
NO_PROOF = (
    "It carries no proof that it is in the log. If it was downloaded in its first minute, download it again; otherwise"
    " do not accept it."
)
NO_CREDENTIAL = "No credential is attached. Only certificates have one, and only after the log covers them."
STATUS_OF_LIST = (
    "The list does not say whether certificates in it were replaced or withdrawn, also not with --online: verify the"
    " PDF of each."
)
COMPARE_KEY = "compare it with an older issuer file of the seller."
CHANGES = {StatementKind.REPLACED, StatementKind.WITHDRAWN}

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Trust:
    """What the auditor gave: the seller's keys, and a policy. With `online`, the status is fetched from the seller."""

    issuer: Issuer
    policy: Policy = field(default_factory=Policy)
    online: bool = False
    # How much later than it claims a certificate may be proven.
    max_delay: timedelta = MAX_DELAY


@dataclass(frozen=True, slots=True)
class Attached:
    """What a PDF has besides the credential. `signing` is that of the credential if there is no PDF."""

    proof: bytes | None = None
    signing: Signing | None = None


def verify_file(name: str, data: bytes, issuer: Issuer, policy: Policy | None = None) -> Report:
    """Without a policy, the built-in one counts, which knows no witness."""
    return verify(name, data, Trust(issuer, policy or Policy()))


def verify(name: str, data: bytes, trust: Trust) -> Report:
    """Never raises NotProven."""
    issuer = trust.issuer
    report = Report(name, policy=trust.policy.name)
    for sentence in issuer.ignored:
        report.add("issuer", Verdict.NOT_CHECKED, f"A key of the issuer file is ignored: {sentence}")
    try:
        if data.startswith(b"%PDF-"):
            _verify_pdf(report, data, trust)
        elif (fork := _read_fork(data)) is not None:
            _verify_fork(report, fork, issuer)
        elif (openings := read_openings(data)) is not None:
            verify_openings(report, openings, issuer, trust.policy, trust.max_delay)
            report.add("status", Verdict.NOT_CHECKED, STATUS_OF_LIST)
            report.incomplete = report.incomplete or trust.online
        else:
            _verify_credential(report, _read_credential(data), trust, Attached())
    except NotProven as error:
        report.unreadable = str(error)
    return report


def _read_fork(data: bytes) -> Json | None:
    if FORK_FORMAT.encode() not in data[:200]:
        return None
    document = read_json(data)
    return document if isinstance(document, dict) and document.get("format") == FORK_FORMAT else None


def _verify_fork(report: Report, fork: Json, issuer: Issuer) -> None:
    """Raises NotProven if it is none."""
    keys = [key for log in issuer.logs if log.origin == fork.get("origin") for key in log.keys]
    try:
        report.add("log", Verdict.FAILS, check_fork(fork, keys))
    except NotProven:
        # The seller may no longer list the key that has signed both heads.
        named = fork.get("keys")
        own = [VerifierKey.parse(each) for each in (named if isinstance(named, list) else ()) if isinstance(each, str)]
        if not own or all(key in keys for key in own):
            raise
        sentence = f"{check_fork(fork, own)} Your issuer file does not list the key {own[0].vkey}: {COMPARE_KEY}"
        report.add("log", Verdict.NOT_PROVEN, sentence)


def _verify_pdf(report: Report, data: bytes, trust: Trust) -> None:
    signature = report.attempt(
        "signature",
        lambda: check_pdf(data, trust.issuer),
        lambda found: (
            f"Signed by {found.signer} on {found.signing.signed_at:%Y-%m-%d}"
            + (f", stamped on {found.signing.stamped_at:%Y-%m-%d}" if found.signing.stamped_at else "")
            + ". The file is complete and was not changed since."
        ),
    )
    if signature is None:
        report.add("credential", Verdict.NOT_CHECKED, "Attachments of a PDF without a valid signature prove nothing.")
        return
    attached = read_attachments(data)
    if CREDENTIAL_FILE not in attached:
        report.add("credential", Verdict.NOT_PROVEN, NO_CREDENTIAL)
        return
    report.add("pages", Verdict.NOT_CHECKED, "The pages of the PDF are not read: compare them with the lines above.")
    proof = attached.get(PROOF_FILE)
    document = _read_credential(attached[CREDENTIAL_FILE])
    _verify_credential(report, document, trust, Attached(proof, signature.signing))


def _read_credential(data: bytes) -> Json:
    """Raises NotProven with a sentence that says what the file is, and which one is needed."""
    if data.startswith(HEADER.encode()):
        raise NotProven("This is an inclusion proof without the certificate. Verify the PDF or credential.json.")
    if data[:1] not in {b"{", b"["} and not data.lstrip()[:1] == b"{":
        raise NotProven("This is neither a PDF nor JSON. Verify the PDF of a certificate, or credential.json.")
    document = read_json(data)
    if not isinstance(document, dict):
        document = {}
    if document.get("format") == ISSUER_FORMAT:
        raise NotProven("This is an issuer file. Give it with --issuer, and the PDF or credential.json as the file.")
    if "credentialSubject" not in document:
        raise NotProven("This JSON is not a credential, so it is not signed. Verify the PDF, or credential.json.")
    found: Json = document
    return found


@dataclass(frozen=True, slots=True)
class _Signed:
    """What the signature of a credential says."""

    subject: Json
    signing: Signing


def _check_signature(document: Json, issuer: Issuer) -> _Signed:
    signature = check_credential(document, issuer.credential_public_keys())
    period = issuer.credential_key(signature.verification_method).period
    period.check(signature.created)
    check_context(document)
    named = document.get("issuer")
    if (named.get("id") if isinstance(named, dict) else named) != issuer.id:
        raise NotProven(f"The credential names another issuer than {issuer.id}.")
    if CERTIFICATE_TYPE not in (document.get("type") or ()):
        raise NotProven("The credential is not that of a certificate.")
    return _Signed(check_shape(document["credentialSubject"]), Signing(signature.created, period.since))


def _verify_credential(report: Report, document: Json, trust: Trust, attached: Attached) -> None:
    issuer = trust.issuer
    signed = report.attempt(
        "credential",
        lambda: _check_signature(document, issuer),
        lambda found: f"Signed by {issuer.id} on {found.signing.signed_at:%Y-%m-%d}. Nothing in it was changed since.",
    )
    if signed is None:
        return
    report.facts += _describe(signed.subject)
    evidence = document.get("evidence")
    changes: list[ProvenEntry] = []
    if isinstance(evidence, list) and evidence:
        changes = _verify_log(
            report, document, evidence, trust, replace(attached, signing=attached.signing or signed.signing)
        )
    else:
        report.add("log", Verdict.NOT_PROVEN, NO_PROOF)
        if signed.subject.get("mode") == "test":
            report.add("mode", Verdict.TEST, TEST_MODE)
    _verify_status(report, document, trust, changes)


def _verify_log(
    report: Report, document: Json, evidence: Sequence[Any], trust: Trust, attached: Attached
) -> list[ProvenEntry]:
    """Returns the entries that say that the certificate was replaced or withdrawn."""
    entries = report.attempt(
        "log",
        lambda: _check_entries(document, evidence, trust, attached.proof),
        lambda found: (
            f"Entry {found[0].index} of the log {found[0].log.origin} states this certificate. The checkpoint with"
            f" {found[0].checkpoint.size} entries proves it."
        ),
    )
    if entries is None:
        return []
    report.entries += entries
    subject: Json = document["credentialSubject"]
    retirements = [each for each in entries if each.kind is StatementKind.RETIREMENT]
    report.attempt(
        "facts",
        lambda: check_agreement(document, entries[0].opening),
        lambda _: "Number, quantity, lines and serial numbers are the same in the credential and in the log.",
    )
    uncounted = report.attempt(
        "retirements",
        lambda: check_quantities(subject, [each.facts for each in retirements]),
        lambda _: f"The lines add up, and the log has the retirement of each: {len(retirements)} in all.",
    )
    add_uncounted(report, uncounted or ())
    if uncounted is not None:
        add_conflicts(report, entries)
    if entries[0].opening.names_erased:
        _add_erased(report, subject)
    check_policy(report, entries, trust.policy)
    verdict, sentence = check_times(entries, trust.policy, trust.max_delay, attached.signing)
    report.add("time", verdict, sentence)
    if verdict is not Verdict.FAILS and attached.signing is not None:
        report.facts.append(describe_times(entries, trust.policy, attached.signing))
    return [each for each in entries if each.kind in CHANGES]


def _add_erased(report: Report, subject: Json) -> None:
    """The name at the registry and the reason of a change may stay when a name is erased. No other may."""
    report.facts.append("The name was erased at the person's request. The other facts are proven without it.")
    for place, stated in names_without_proof(subject):
        verdict = Verdict.NOT_CHECKED if place in {"registry_name", "reason"} else Verdict.NOT_PROVEN
        sentence = f"`{place}` is {stated!r} in the credential, but nothing shows that the log states it."
        report.add("names", verdict, sentence)


def _check_entries(document: Json, evidence: Sequence[Any], trust: Trust, attached: bytes | None) -> list[ProvenEntry]:
    """All entries are proven. The first one is the certificate's own."""
    entries = [check_evidence(each, trust.issuer, trust.policy) for each in evidence]
    number = document["credentialSubject"].get("number")
    own = [each for each in entries if each.kind is StatementKind.ISSUED]
    if own != entries[:1] or own[0].subject != number:
        raise NotProven("The proof is that of another certificate.")
    if any(each.kind in CHANGES and each.subject != number for each in entries):
        raise NotProven("The proof contains an entry about another certificate.")
    if attached is not None and attached != evidence[0]["proof"].encode():
        raise NotProven(f"The attached {PROOF_FILE} is not the proof in the credential.")
    return entries


def _verify_status(report: Report, document: Json, trust: Trust, changes: Sequence[ProvenEntry]) -> None:
    for change in changes:
        at = change.opening.statement["at"]
        if change.kind is StatementKind.REPLACED:
            sentence = f"Certificate {change.facts.get('replaced_by')} replaced this one, at {at}. Ask for the new one."
        else:
            sentence = f"The certificate was withdrawn at {at}. It proves nothing any more."
        report.add("status", Verdict.FAILS, sentence)
    if changes:
        return
    if not trust.online:
        sentence = "A file cannot know whether it was replaced or withdrawn later. Use --online."
        report.add("status", Verdict.NOT_CHECKED, sentence)
        return
    report.attempt("status", lambda: _check_state(document, trust.issuer), lambda _: "The seller lists it as valid.")


def _check_state(document: Json, issuer: Issuer) -> None:
    state, listed_on = fetch_state(document, issuer)
    if state is CredentialState.REPLACED:
        raise NotProven(
            f"The seller lists it, on {listed_on:%Y-%m-%d}, as replaced by a newer certificate. Ask for the new one."
        )
    if state is CredentialState.WITHDRAWN:
        raise NotProven(f"The seller lists it, on {listed_on:%Y-%m-%d}, as withdrawn. It proves nothing any more.")


def _describe(subject: Json) -> list[str]:
    name = subject.get("beneficiary")
    facts = [f"Certificate {subject.get('number')}: {subject.get('total_quantity')} t CO2e for {name}."]
    facts += [
        f"{line.get('quantity')} t: {line.get('registry')} {line.get('project_id')} {line.get('project_name')}, vintage"
        f" {line.get('vintage')}, serial numbers {line.get('serial_range')}, retired on {line.get('retired_on')}."
        for line in subject["lines"]
    ]
    return facts
