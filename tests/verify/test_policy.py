"""Policies: their lines, and what a certificate needs under each."""

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.verify.seller import NAMES, NUMBER, SUBJECT, Seller, certificate_facts, make_opening, retirement_facts
from tonne_verify.cli import main
from tonne_verify.errors import NotProven
from tonne_verify.notes import NoteKey, SignatureType
from tonne_verify.openings import Opening
from tonne_verify.policy import Policy
from tonne_verify.report import ExitCode, Report
from tonne_verify.verify_file import verify_file


def make_witness(name: str) -> NoteKey:
    return NoteKey(name, Ed25519PrivateKey.generate(), SignatureType.COSIGNATURE)


def parse(text: str) -> Policy:
    return Policy.parse(text.encode(), "my.policy")


def test_the_example_of_the_specification() -> None:
    x, y = [make_witness(f"x/{i}") for i in range(3)], [make_witness(f"y/{i}") for i in range(3)]
    log = NoteKey("log.example", Ed25519PrivateKey.generate())
    policy = parse(
        f"  # two organisations\nlog {log.vkey} https://log.example/\n\n"
        + "".join(f"witness X{i}\t{key.vkey}\n" for i, key in enumerate(x))
        + "group X-witnesses 2 X0 X1 X2\n"
        + "".join(f"witness Y{i} {key.vkey} https://{key.name}\n" for i, key in enumerate(y))
        + "group Y-witnesses any Y0 Y1 Y2\ngroup both all X-witnesses Y-witnesses\nquorum both\n"
    )
    for cosigners, is_enough in (
        ([x[0], x[2], y[1]], True),
        ([*x, *y], True),
        ([x[0], y[0], y[1]], False),
        (x, False),
        ([], False),
    ):
        assert policy.has_quorum({each.public for each in cosigners}) is is_enough
    assert policy.describe() == "2 of (2 of (X0, X1, X2), 1 of (Y0, Y1, Y2))"
    assert policy.logs[0].url == "https://log.example/"


def test_lines_that_are_refused(seller: Seller) -> None:
    private = Ed25519PrivateKey.generate()
    a, same_key = (NoteKey(name, private, SignatureType.COSIGNATURE).vkey for name in ("a", "other"))
    b = make_witness("b").vkey
    for text, reason in (
        ("", "has no line `quorum`"),
        ("quorum w\n", "line 1: `w` is not defined before this line"),
        (f"witness w {a}\nquorum w\nquorum w\n", "line 3: There is a second line"),
        (f"witness none {a}\nquorum none\n", "`none` is used already"),
        (f"witness w {a}\nwitness w {b}\nquorum w\n", "`w` is used already"),
        (f"witness w {a}\nwitness v {same_key}\nquorum w\n", "listed twice"),
        (f"log {seller.log_key.vkey}\nlog {seller.log_key.vkey}\nquorum none\n", "listed twice"),
        (f"log {a}\nquorum none\n", "not one of those"),
        (f"witness w {seller.log_key.vkey}\nquorum w\n", "not one of those"),
        (f"witness w {a}\ngroup g 2 w\nquorum g\n", "`2` is not any, all"),
        (f"witness w {a}\ngroup g 0 w\nquorum g\n", "`0` is not any, all"),
        (f"witness w {a}\ngroup g any w w\nquorum g\n", "member of a group already"),
        (f"witness w {a}\ngroup g any w\ngroup h any w\nquorum g\n", "member of a group already"),
        (f"group g any g\nwitness w {a}\nquorum w\n", "`g` is not defined"),
        (f"witness w {a}\ngroup g any none\nquorum w\n", "`none` is not defined"),
        (f"witness w {a}\ngroup g any\nquorum w\n", "not a line of a policy"),
        (f"witness w {a} https://w/ more\nquorum w\n", "not a line of a policy"),
        ("trust everybody\nquorum none\n", "not a line of a policy"),
        ("quorum none\r\n", "control characters"),
        ("witness w w+00000000+AAAA\nquorum w\n", "line 1: The public key of w is of an unknown kind"),
    ):
        with pytest.raises(NotProven, match=reason):
            parse(text)


def verify(
    seller: Seller, policy: str | None, *openings: Opening, cosigned: bool = True, accept: bool = False
) -> Report:
    evidence = seller.prove(openings, cosigned=cosigned) if openings else seller.evidence(cosigned=cosigned)
    found = parse(policy) if policy is not None else Policy()
    found = found.accepting_no_witness() if accept else found
    document = json.dumps(seller.credential(evidence=evidence)).encode()
    return verify_file("credential.json", document, seller.issuer(), found)


def sentence(report: Report, name: str) -> str:
    return " ".join(each.sentence for each in report.checks if each.name == name)


def test_a_witness_counts_only_if_the_auditor_named_it(seller: Seller) -> None:
    stranger = make_witness("witness.stranger/w")
    report = verify(seller, None)
    assert report.exit_code == 3
    assert sentence(report, "witnesses").endswith("witness.example/w cosigned, but only the seller names this key.")
    report = verify(seller, f"witness s {stranger.vkey}\nquorum s\n")
    assert report.exit_code == 3
    assert "my.policy demands a cosignature of s; there is none." in sentence(report, "witnesses")
    # The policy has the real key of a witness in whose name the seller has made a key.
    famous = make_witness(seller.witness.name)
    report = verify(seller, f"witness famous {famous.vkey}\nquorum famous\n")
    assert report.exit_code == 3
    assert "A line in the name of witness.example/w is not by the key that you trust" in sentence(report, "witnesses")
    both = f"witness w {seller.witness.vkey}\nwitness s {stranger.vkey}\ngroup g all w s\nquorum g\n"
    assert "there is only that of witness.example/w" in sentence(verify(seller, both), "witnesses")
    either = verify(seller, both.replace(" all ", " any "))
    assert either.exit_code == 0
    assert either.lines()[-1] == "  Result: Proven, under my.policy. Not checked: status."


def test_no_witness_must_be_accepted_expressly(seller: Seller) -> None:
    for policy in (None, "quorum none\n"):
        report = verify(seller, policy, cosigned=False)
        assert report.exit_code == 3
        assert "--accept-no-witness" in sentence(report, "witnesses")
        assert verify(seller, policy, cosigned=False, accept=True).exit_code == 0
    # Who demands witnesses gets them.
    assert verify(seller, seller.policy_text(), cosigned=False, accept=True).exit_code == 3


def test_a_log_that_the_policy_does_not_list(seller: Seller) -> None:
    other = NoteKey(seller.log_key.name, Ed25519PrivateKey.generate())
    for key, code in ((other, 3), (seller.log_key, 0)):
        report = verify(seller, f"log {key.vkey}\nwitness w {seller.witness.vkey}\nquorum w\n")
        assert report.exit_code == code
    assert verify(seller, f"witness w {seller.witness.vkey}\nquorum w\n").exit_code == 0


def test_a_test_certificate_is_never_proven(seller: Seller) -> None:
    log = {**seller.issuer_json()["logs"][0], "mode": "test"}
    openings = [
        make_opening("certificate.issued", NUMBER, {**certificate_facts(), "mode": "test"}, NAMES),
        make_opening("retirement", "par_1", retirement_facts()),
    ]
    for each in openings:
        each.statement["mode"] = "test"  # type: ignore[index]
    for evidence, code in ((seller.prove(openings), 4), (seller.prove(openings, cosigned=False), 3), (None, 3)):
        subject = {**SUBJECT, "mode": "test"}
        document = json.dumps(seller.credential(evidence=evidence, credentialSubject=subject)).encode()
        report = verify_file("x", document, seller.issuer(logs=[log]), seller.policy())
        assert report.exit_code == code, report.lines()
        assert sentence(report, "mode") == "This is a certificate of the test mode: no credits were retired."


def test_the_worst_of_several_files_decides() -> None:
    codes = [ExitCode.PROVEN, ExitCode.TEST, ExitCode.NOT_PROVEN, ExitCode.UNREADABLE, ExitCode.FALSE]
    for count in range(1, 6):
        assert ExitCode.worst(codes[:count]) is codes[count - 1]


def test_an_odd_key_does_not_make_the_issuer_file_unreadable(seller: Seller) -> None:
    odd = "witness.pq+" + "00" * 4 + "+BgAA"
    log = {**seller.issuer_json()["logs"][0]}
    log["witnesses"], log["keys"] = [odd, *log["witnesses"]], [odd, "no key", *log["keys"]]
    keys = [{"id": "new", "public_key_multibase": "zDna"}, *seller.issuer_json()["credential_keys"]]
    certificates = ["no certificate", *seller.issuer_json()["document_certificates"]]
    issuer = seller.issuer(logs=[log], credential_keys=keys, document_certificates=certificates)
    assert len(issuer.ignored) == 5
    report = verify_file("x.pdf", seller.pdf(), issuer, seller.policy())
    assert report.exit_code == 0, report.lines()
    assert "The public key of witness.pq is of an unknown kind" in sentence(report, "issuer")


def test_who_is_trusted_is_shown(seller: Seller, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "issuer.json").write_text(json.dumps(seller.issuer_json()))
    (tmp_path / "credential.json").write_text(json.dumps(seller.credential()))
    run = [str(tmp_path / "credential.json"), "--issuer", str(tmp_path / "issuer.json")]
    assert main(run) == 3
    assert "trust add witness KEY" in capsys.readouterr().out
    assert main(["trust", "add", "witness", make_witness("other.example/w").vkey, "https://other.example"]) == 0
    assert main(run) == 3
    capsys.readouterr()
    assert main(["trust", "add", "witness", seller.witness.vkey]) == 0
    shown = capsys.readouterr().out
    assert "Trusted as a witness from now on: witness.example/w" in shown
    assert seller.witness.public.id.hex() in shown
    assert seller.witness.public.public.hex() in shown
    assert main(run) == 0
    assert main(["trust", "add", "log", seller.log_key.vkey]) == 0
    assert main(run) == 0
    for again, reason in ((seller.witness.vkey, "is used already"), ("nothing", "not a public key")):
        assert main(["trust", "add", "witness", again]) == 2
        assert reason in capsys.readouterr().out
    own = tmp_path / "own.policy"
    own.write_text(seller.policy_text())
    assert main(["trust", "add", "log", make_witness("x").vkey, "--policy", str(own)]) == 2
    assert "has a quorum of its own" in capsys.readouterr().out
