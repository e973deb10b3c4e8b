"""What the commands `tonne-verify` and `tonne verify` do."""

import hashlib
import json
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tonne_verify.audit_state import AuditState
from tonne_verify.double_sales import find_double_sales
from tonne_verify.download import address_of_issuer, fetch
from tonne_verify.errors import NotProven
from tonne_verify.files import list_files, read_bytes, write_text
from tonne_verify.forks import find_forks, keep_fork
from tonne_verify.html_report import Input, Setting, write_page
from tonne_verify.issuer import CredentialKey, DocumentCertificate, Issuer, IssuerLog
from tonne_verify.ledger import Ledger
from tonne_verify.monitor import AuditOptions, audit
from tonne_verify.pack import PACK_RESULTS, check_pack
from tonne_verify.policy import BUILT_IN, Policy
from tonne_verify.report import ExitCode, Report, Results, Verdict, printable
from tonne_verify.seen import check_seen
from tonne_verify.timeline import MAX_DELAY
from tonne_verify.trust import add_trust, load_policy, own_policy
from tonne_verify.verify_file import Trust, verify
from tonne_verify.witness import Witness, open_key, serve_witness

Echo = Callable[[str], None]
AUDIT_RESULTS = Results(
    holds="The logs are what they were, with new entries at their ends.",
    fails="Keep the state file: it has the signed checkpoints. Ask the seller, and tell others who audit it.",
    not_proven="Not proven: {names}.",
)
MONITOR_RESULTS = Results(
    holds="Nothing was found twice. What a seller does not disclose is not compared.",
    fails="Ask the sellers for the certificates, and check them together: `tonne-verify FILES --issuer …`.",
    not_proven="Not proven: {names}. Compare with the logs: give the addresses of the sellers.",
)


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    issuer: Path
    as_json: bool = False
    online: bool = False
    policy: Path | None = None
    accept_no_witness: bool = False
    max_delay_hours: int = int(MAX_DELAY / timedelta(hours=1))
    # An HTML file to write, and its language.
    page: Path | None = None
    language: str = "en"
    # Of an audit.
    state: Path | None = None


def run_verify(files: Sequence[Path], options: VerifyOptions, echo: Echo) -> ExitCode:
    """Verifies the files and writes a report. Returns the exit code: that of the worst file."""
    silence_libraries()
    try:
        policy = load_policy(options.policy, accept_no_witness=options.accept_no_witness)
        issuer = Issuer.parse(read_bytes(options.issuer))
        state = None if options.state is None else AuditState.load(options.state, None)
        if options.online:
            issuer = update_issuer(issuer)
    except NotProven as error:
        echo(json.dumps({"error": str(error)}) if options.as_json else printable(str(error)))
        return ExitCode.UNREADABLE
    trust = Trust(issuer, policy, options.online, timedelta(hours=options.max_delay_hours))
    reports = [_verify(name, read, trust) for path in files for name, read in list_files(path)]
    if state is not None:
        for report in reports:
            check_seen(report, state)
    together = _compare(reports, policy)
    failed = _write_page(reports, together, trust, options)
    if together is not None:
        reports.append(together)
    if options.as_json:
        echo(json.dumps([each.to_json() for each in reports], indent=2, ensure_ascii=False))
    else:
        for line in [line for each in reports for line in each.lines()]:
            echo(printable(line))
    if failed is not None:
        sys.stderr.write(printable(failed) + "\n")
    codes = [each.exit_code for each in reports]
    return ExitCode.worst([*codes, *([ExitCode.UNREADABLE] if failed is not None else [])])


def _write_page(reports: Sequence[Report], together: Report | None, trust: Trust, options: VerifyOptions) -> str | None:
    """Writes the HTML report if it was asked for. Returns why that failed."""
    if options.page is None:
        return None
    try:
        path = options.policy if options.policy is not None or trust.policy.name == BUILT_IN else own_policy()
        policy = None if path is None else _input(path)
        setting = Setting(trust, _input(options.issuer), policy, datetime.now(UTC))
        write_text(options.page, write_page(reports, together, setting, options.language))
    except NotProven as error:
        return str(error)
    return None


def _input(path: Path) -> Input:
    return Input(str(path), hashlib.sha256(read_bytes(path)).hexdigest())


def run_audit(url: str, options: AuditOptions, echo: Echo, *, as_json: bool = False) -> ExitCode:
    """Audits the logs at a URL and writes a report. Returns the exit code."""
    return _print(audit(url, options), AUDIT_RESULTS, echo, as_json=as_json)


def run_monitor(logs: Sequence[str], echo: Echo, *, as_json: bool = False) -> ExitCode:
    return _print(find_double_sales(logs), MONITOR_RESULTS, echo, as_json=as_json)


def _print(report: Report, results: Results, echo: Echo, *, as_json: bool) -> ExitCode:
    if as_json:
        echo(json.dumps(report.to_json(), indent=2, ensure_ascii=False))
    else:
        for line in report.lines(results):
            echo(printable(line))
    return report.exit_code


def run_pack(path: Path, issuer: Path, echo: Echo, *, as_json: bool = False) -> ExitCode:
    silence_libraries()
    try:
        report = check_pack(path, Issuer.parse(read_bytes(issuer)))
    except NotProven as error:
        report = Report(str(path), unreadable=str(error))
    if as_json:
        echo(json.dumps(report.to_json(), indent=2, ensure_ascii=False))
    else:
        for line in report.lines(PACK_RESULTS):
            echo(printable(line))
    return report.exit_code


def run_trust(kind: str, vkey: str, url: str | None, path: Path | None, echo: Echo) -> ExitCode:
    try:
        for line in add_trust(kind, vkey, url, path or own_policy()):
            echo(printable(line))
    except NotProven as error:
        echo(printable(str(error)))
        return ExitCode.UNREADABLE
    return ExitCode.PROVEN


def run_witness(name: str, key: Path, logs: Path, state: Path, *, address: tuple[str, int], echo: Echo) -> ExitCode:
    """Serves until it is stopped."""
    try:
        witness = Witness(open_key(name, key), load_policy(logs), state)
        server = serve_witness(witness, *address)
    except NotProven as error:
        echo(printable(str(error)))
        return ExitCode.UNREADABLE
    except OSError as error:
        echo(printable(f"The address cannot be used: {error.strerror}."))
        return ExitCode.UNREADABLE
    echo(f"{witness.key.vkey}\nListening at http://{address[0]}:{server.server_port}/")
    with server, suppress(KeyboardInterrupt):
        server.serve_forever()
    return ExitCode.PROVEN


def _verify(name: str, read: Callable[[], bytes], trust: Trust) -> Report:
    try:
        data = read()
    except NotProven as error:
        return Report(name, unreadable=str(error))
    report = verify(name, data, trust)
    report.sha256 = hashlib.sha256(data).hexdigest()
    return report


def _compare(reports: Sequence[Report], policy: Policy) -> Report | None:
    """What the log states about all files together; None if there are not several, and nothing to keep."""
    together = Report("All files together", policy=policy.name)
    for evidence in find_forks(entry for report in reports for entry in report.entries):
        together.add("log", Verdict.FAILS, keep_fork(evidence, Path()))
    if len([each for each in reports if each.entries]) < 2:
        return together if together.checks else None
    ledgers: dict[str, Ledger] = {}
    for report in reports:
        for entry in report.entries:
            mode = str(entry.opening.statement["mode"])
            ledgers.setdefault(mode, Ledger()).add_entry(report.file, entry)
    for mode, ledger in sorted(ledgers.items()):
        together.facts += [total if mode == "live" else f"Test: {total}" for total in ledger.totals()]
        for sentence in ledger.find_ended():
            together.add("status", Verdict.FAILS, sentence)
        conflicts = ledger.find_conflicts()
        for sentence in conflicts:
            together.add("count", Verdict.FAILS, sentence)
        if not conflicts:
            sentence = f"Certificates: {len(ledger.counted)}. Together they do not count a tonne twice."
            together.add("count", Verdict.HOLDS, sentence)
    return together


def update_issuer(known: Issuer) -> Issuer:
    """The known keys, with the dates on which the issuer has since retired or revoked them.

    New keys are not taken over: who controls the website would otherwise be trusted. Raises NotProven if a known key
    is no longer published.
    """
    present = Issuer.parse(fetch(address_of_issuer(known.id)))
    if present.id != known.id:
        raise NotProven(f"{known.id} publishes the keys of another issuer, {present.id}.")
    credential_keys = tuple(_updated_key(each, present) for each in known.credential_keys)
    certificates = tuple(_updated_certificate(each, present) for each in known.document_certificates)
    logs = tuple(_updated_log(each, present) for each in known.logs)
    return replace(known, credential_keys=credential_keys, document_certificates=certificates, logs=logs)


def _updated_key(known: CredentialKey, present: Issuer) -> CredentialKey:
    for key in present.credential_keys:
        if key.id == known.id and key.public_key.public_bytes_raw() == known.public_key.public_bytes_raw():
            return replace(known, period=key.period)
    raise NotProven(f"The issuer no longer publishes the key {known.id} of your issuer file. Ask the seller why.")


def _updated_certificate(known: DocumentCertificate, present: Issuer) -> DocumentCertificate:
    for certificate in present.document_certificates:
        if certificate.pem.split() == known.pem.split():
            return replace(known, period=certificate.period)
    raise NotProven("The issuer no longer publishes a document certificate of your issuer file. Ask the seller why.")


def _updated_log(known: IssuerLog, present: Issuer) -> IssuerLog:
    """Without the keys that leaked since: the issuer no longer lists them."""
    listed = present.log(known.origin).keys
    return replace(known, keys=tuple(key for key in known.keys if key in listed))


def silence_libraries() -> None:
    """pyHanko logs what the report says in words."""
    for name in ("pyhanko", "pyhanko_certvalidator"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
