"""Certificates that hold, and every way to tamper with them."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
from pyhanko.pdf_utils.reader import PdfFileReader

from tests.verify.file_server import serve
from tests.verify.seller import (
    DID,
    HOST,
    LINE,
    METHOD,
    NUMBER,
    SUBJECT,
    Seller,
    make_opening,
    make_pdf,
    retirement_facts,
)
from tonne_verify.cli import main
from tonne_verify.errors import NotProven
from tonne_verify.issuer import Issuer
from tonne_verify.multibase import encode_multikey
from tonne_verify.pdf import check_pdf
from tonne_verify.report import Report, Verdict
from tonne_verify.run import silence_libraries
from tonne_verify.verify_file import verify_file
from tonne_verify.vocabulary import CONTEXT_FILE, CREDENTIALS_V2, related_resource

silence_libraries()


def verdicts(report: Report) -> dict[str, str]:
    assert report.unreadable is None
    return {each.name: each.verdict for each in report.checks}


def failures(report: Report) -> dict[str, str]:
    return {each.name: each.sentence for each in report.checks if each.verdict is Verdict.FAILS}


def verify_json(seller: Seller, document: dict[str, Any], **changes: Any) -> Report:
    return verify_file("credential.json", json.dumps(document).encode(), seller.issuer(**changes), seller.policy())


def test_a_certificate_holds(seller: Seller) -> None:
    pdf = verify_file("certificate.pdf", seller.pdf(), seller.issuer(), seller.policy())
    of_credential = {
        "credential": "holds",
        "log": "holds",
        "facts": "holds",
        "retirements": "holds",
        "witnesses": "holds",
        "time": "holds",
        "status": "not checked",
    }
    assert verdicts(pdf) == {"signature": "holds", "pages": "not checked", **of_credential}
    assert pdf.exit_code == 0
    assert pdf.facts[0] == f"Certificate {NUMBER}: 1.5 t CO2e for Ada Lovelace."
    credential = verify_json(seller, seller.credential())
    assert verdicts(credential) == of_credential
    assert credential.lines()[-1] == "  Result: Proven, under policy. Not checked: status."


def test_a_document_without_proof_is_not_proven(seller: Seller) -> None:
    """An invoice, and a certificate that was drawn before the log covered it."""
    invoice = verify_file("invoice.pdf", seller.pdf({}), seller.issuer(), seller.policy())
    assert verdicts(invoice) == {"signature": "holds", "credential": "not proven"}
    early = verify_json(seller, seller.credential(evidence=None))
    assert verdicts(early) == {"credential": "holds", "log": "not proven", "status": "not checked"}
    unwitnessed = verify_json(seller, seller.credential(evidence=seller.evidence(cosigned=False)))
    assert verdicts(unwitnessed)["witnesses"] == "not proven"
    assert [each.exit_code for each in (invoice, early, unwitnessed)] == [3, 3, 3]
    assert unwitnessed.lines()[-1] == "  Result: Not proven: witnesses. Nothing was found to be false."


@pytest.fixture(scope="module")
def small_pdf(seller: Seller) -> bytes:
    return seller.sign_pdf(make_pdf({}))


def test_a_changed_byte_of_the_signature_is_found(seller: Seller, small_pdf: bytes) -> None:
    """No digest covers these bytes. The signature itself has one spelling, and what follows it is zero."""
    issuer = seller.issuer()
    check_pdf(small_pdf, issuer)
    (signature,) = PdfFileReader(BytesIO(small_pdf)).embedded_signatures
    _, before, after, _ = (int(each) for each in signature.byte_range)
    # The brackets, both ends, and a sample of all parts between.
    places = {before, before + 1, before + 2, after - 2, after - 1, *range(before + 7, after, 173)}
    for place in places:
        changed = bytearray(small_pdf)
        changed[place] ^= 0x20 if chr(changed[place]).isalpha() else 1
        with pytest.raises(NotProven):
            check_pdf(bytes(changed), issuer)


def test_a_changed_byte_of_the_document_is_found(seller: Seller, small_pdf: bytes) -> None:
    issuer = seller.issuer()
    for place in range(0, len(small_pdf), 301):
        changed = bytearray(small_pdf)
        changed[place] ^= 1
        with pytest.raises(NotProven):
            check_pdf(bytes(changed), issuer)


def test_other_pdfs_are_refused(seller: Seller, small_pdf: bytes) -> None:
    updated = IncrementalPdfFileWriter(BytesIO(small_pdf))
    updated.root["/Lang"] = updated.root["/Pages"]
    updated.update_root()  # type: ignore[no-untyped-call]
    added = BytesIO()
    updated.write(added)  # type: ignore[no-untyped-call]
    other = Seller()
    for data, reason in (
        (make_pdf({}), "not signed"),
        (added.getvalue(), "added to the PDF after it was signed"),
        (small_pdf + b"\n", "added to the PDF after it was signed"),
        (small_pdf[:-1], "end of the file is missing|damaged"),
        (other.pdf({}), "with a key that the issuer file does not list"),
        (b"%PDF-1.7 nothing", "damaged"),
    ):
        with pytest.raises(NotProven, match=reason):
            check_pdf(data, seller.issuer())
    report = verify_file("x.pdf", small_pdf + b"\n", seller.issuer())
    assert verdicts(report) == {"signature": "does not hold", "credential": "not checked"}
    assert report.exit_code == 1


def test_keys_that_leaked_do_not_count_from_then_on(seller: Seller) -> None:
    issuer = seller.issuer_json()
    leaked = {"certificate": issuer["document_certificates"][0], "revoked_from": "2020-01-01T00:00:00Z"}
    with pytest.raises(NotProven, match="leaked on 2020-01-01"):
        check_pdf(seller.pdf({}), seller.issuer(document_certificates=[leaked]))
    for key, holds in (("2026-05-04T10:00:00Z", False), ("2026-05-04T10:00:01Z", True)):
        keys = [{**issuer["credential_keys"][0], "revoked_from": key}]
        assert (verify_json(seller, seller.credential(), credential_keys=keys).exit_code == 0) is holds


def _subject(**changes: Any) -> dict[str, Any]:
    return {**SUBJECT, **changes}


@pytest.mark.parametrize(
    ("changes", "failed", "reason"),
    [
        ({"credentialSubject": _subject(total_quantity="15")}, {"facts", "retirements"}, "total_quantity"),
        ({"credentialSubject": _subject(beneficiary="Eve")}, {"facts"}, "beneficiary"),
        ({"credentialSubject": _subject(number="AAAA-BBBB-CCCC-DDDD")}, {"log"}, "another certificate"),
        ({"credentialSubject": _subject(mode="test")}, {"facts"}, "mode"),
        ({"credentialSubject": _subject(lines=[{**LINE, "serial_range": "X 1"}])}, {"facts", "retirements"}, "X 1"),
        ({"credentialSubject": _subject(lines=[LINE, LINE])}, {"facts", "retirements"}, "lines"),
        ({"credentialSubject": _subject(lines=[])}, {"credential"}, "no lines"),
        ({"validFrom": "2026-05-05T10:00:00Z"}, {"facts"}, "issued_at"),
        ({"issuer": {"id": "did:web:evil.example"}}, {"credential"}, "another issuer"),
        ({"type": ["VerifiableCredential"]}, {"credential"}, "not that of a certificate"),
    ],
)
def test_a_credential_that_contradicts_the_log(
    seller: Seller, changes: dict[str, Any], failed: set[str], reason: str
) -> None:
    """The seller itself signs something else than what it logged."""
    report = verify_json(seller, seller.credential(**changes))
    assert set(failures(report)) == failed
    assert reason in " ".join(failures(report).values())
    assert report.exit_code == 1


def test_forged_proofs(seller: Seller) -> None:
    own = seller.evidence()
    forger = Seller(document_key=seller.document_key)
    stranger = make_opening("certificate.issued", "AAAA", {"number": "AAAA"})
    more = make_opening("retirement", "par_1", retirement_facts(quantity="1"))
    cases = [
        # A checkpoint that another key signed in the name of the log, and one of another log.
        ([*forger.evidence()], "log", "None of the known keys"),
        (
            json.loads(json.dumps(own).replace("offsets.example.com/log", "evil.example/log")),
            "log",
            "does not list a log",
        ),
        ([{**own[0], "salt": "00" * 32}, own[1]], "log", "another root"),
        ([{**own[0], "proof": own[1]["proof"]}, own[1]], "log", "another root"),
        ([{**own[0], "names": {"beneficiary": "Eve"}}, own[1]], "log", "names are not those"),
        ([own[1], own[0]], "log", "another certificate"),
        (own[:1], "retirements", "has no retirement"),
        ([own[0], *seller.prove([more])], "retirements", "more tonnes"),
        (seller.prove([stranger]), "log", "another certificate"),
        (["x"], "log", "no statement"),
        ([{**own[0], "proof": None}], "log", "no inclusion proof"),
    ]
    for evidence, name, reason in cases:
        report = verify_json(seller, seller.credential(evidence=evidence))
        assert reason in failures(report)[name], failures(report)
    credential = seller.credential()
    swapped = {"credential.json": json.dumps(credential).encode(), "certificate.tlog-proof": b"another"}
    report = verify_file("x.pdf", seller.pdf(swapped), seller.issuer())
    assert "is not the proof in the credential" in failures(report)["log"]


def test_the_facts_hold_after_the_name_was_erased(seller: Seller) -> None:
    issued, retired = seller.evidence()
    issued = {**issued, "names": None, "names_salt": None}
    erased = seller.credential(credentialSubject=_subject(beneficiary="erased"), evidence=[issued, retired])
    report = verify_json(seller, erased)
    assert report.exit_code == 0
    assert "erased at the person's request" in report.facts[-2]


def test_a_replaced_or_withdrawn_certificate_does_not_hold(seller: Seller) -> None:
    for kind, facts, reason in (
        ("certificate.replaced", {"number": NUMBER, "replaced_by": "NEW1"}, "NEW1 replaced this one"),
        ("certificate.withdrawn", {"number": NUMBER}, "was withdrawn"),
    ):
        evidence = seller.evidence(make_opening(kind, NUMBER, facts))
        report = verify_json(seller, seller.credential(evidence=evidence))
        assert reason in failures(report)["status"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"hello", "neither a PDF nor JSON"),
        (b"{", "not JSON"),
        (b'{"number": "1"}', "not a credential"),
        (b'["a"]', "not a credential"),
        (b"c2sp.org/tlog-proof@v1\n", "inclusion proof without the certificate"),
        (b'{"format": "tonne-issuer/1"}', "Give it with --issuer"),
    ],
)
def test_other_files_are_refused_with_a_sentence(seller: Seller, content: bytes, reason: str) -> None:
    report = verify_file("x", content, seller.issuer())
    assert report.unreadable is not None
    assert reason in report.unreadable
    assert report.exit_code == 2


def test_the_command(seller: Seller, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    issuer, good, bad = tmp_path / "issuer.json", tmp_path / "good.json", tmp_path / "bad.json"
    (tmp_path / "policy").write_text(seller.policy_text())
    trust = ["--issuer", str(issuer), "--policy", str(tmp_path / "policy")]
    issuer.write_text(json.dumps(seller.issuer_json()))
    good.write_text(json.dumps(seller.credential()))
    bad.write_text(good.read_text().replace("Ada", "\x1b[2JEve").replace("\x1b", "\\u001b"))
    assert main([str(good), *trust]) == 0
    assert "holds          credential " in capsys.readouterr().out
    assert main([str(good), str(bad), *trust, "--json"]) == 1
    first, second = json.loads(capsys.readouterr().out)
    assert (first["holds"], second["holds"]) == (True, False)
    assert second["checks"] == [
        {
            "name": "credential",
            "verdict": "does not hold",
            "sentence": "The signature is wrong: the credential was changed after it was signed.",
        }
    ]
    assert main([str(tmp_path / "missing"), *trust]) == 2
    assert "cannot be read: No such file" in capsys.readouterr().out
    assert main([str(good), "--issuer", str(good)]) == 2
    assert "not an issuer file" in capsys.readouterr().out
    with pytest.raises(SystemExit) as error:
        main([str(good)])
    assert error.value.code == 2


def test_online_asks_for_the_status_and_for_revoked_keys(seller: Seller, tmp_path: Path) -> None:
    files: dict[str, bytes] = {}
    with serve(files) as host:
        did, url = f"did:web:{host.replace(':', '%3A')}", f"http://{host}/credentials/status/1"
        published = seller.issuer_json(issuer=did)
        entry = {
            "type": "BitstringStatusListEntry",
            "statusPurpose": "message",
            "statusListIndex": "5",
            "statusListCredential": url,
            "statusSize": 2,
        }
        credential = seller.credential(issuer={"id": did}, credentialStatus=entry)
        paths = [
            tmp_path / "credential.json",
            "--issuer",
            tmp_path / "issuer.json",
            "--online",
            "--policy",
            tmp_path / "policy",
        ]
        (tmp_path / "policy").write_text(seller.policy_text())
        (tmp_path / "credential.json").write_text(json.dumps(credential))
        (tmp_path / "issuer.json").write_text(json.dumps(published))
        run = [str(each) for each in paths]

        # The issuer file cannot be fetched, then the list.
        assert main(run) == 2
        files["/.well-known/tonne-issuer.json"] = json.dumps(published).encode()
        assert main(run) == 2
        # Entry 5 is in bits 10 and 11.
        for state, code in ((0b00, 0), (0b01, 1), (0b10, 1), (0b11, 1)):
            states = bytes([0xFF, 0b11001111 | state << 4, 0xFF])
            files["/credentials/status/1"] = json.dumps(seller.status_list(url, states)).encode()
            assert main(run) == code, state
        files["/credentials/status/1"] = json.dumps(Seller(seller.document_key).status_list(url, bytes(3))).encode()
        assert main(run) == 1
        files["/credentials/status/1"] = json.dumps(seller.status_list(url, bytes(3))).encode()
        assert main(run) == 0
        revoked = [{**published["credential_keys"][0], "revoked_from": "2026-01-01T00:00:00Z"}]
        files["/.well-known/tonne-issuer.json"] = json.dumps({**published, "credential_keys": revoked}).encode()
        assert main(run) == 1
        leaked = [{**published["logs"][0], "keys": []}]
        files["/.well-known/tonne-issuer.json"] = json.dumps({**published, "logs": leaked}).encode()
        assert main(run) == 1
        # Somebody has taken over the website.
        other = Seller(seller.document_key).credential_key.public_key()
        taken = [{"id": METHOD, "public_key_multibase": encode_multikey(other)}]
        files["/.well-known/tonne-issuer.json"] = json.dumps({**published, "credential_keys": taken}).encode()
        assert main(run) == 2
    assert Issuer.parse(json.dumps(seller.issuer_json())).id == DID


def test_a_context_that_gives_the_words_another_meaning_is_refused(seller: Seller) -> None:
    url = f"https://{HOST}/credentials/vocabulary/context-v1.json"
    contexts = [CREDENTIALS_V2, url]
    pinned = related_resource(CONTEXT_FILE, url)
    other = {**pinned, "digestSRI": pinned["digestSRI"].swapcase()}
    refused = "The credential gives its words another meaning: its `@context` is not one that is known."
    for changes, holds in (
        ({"@context": contexts, "relatedResource": [pinned]}, True),
        ({"@context": contexts}, False),
        ({"@context": contexts, "relatedResource": [other]}, False),
        ({"@context": [*contexts, {"quantity": "urn:kilograms"}], "relatedResource": [pinned]}, False),
        ({"@context": contexts[1:], "relatedResource": [pinned]}, False),
        ({"@context": {}}, False),
    ):
        document: dict[str, Any] = dict(changes)
        failed = failures(verify_json(seller, seller.credential(**document)))
        assert failed == ({} if holds else {"credential": refused}), changes
