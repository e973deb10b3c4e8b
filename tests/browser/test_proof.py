"""proof.js, which checks credentials and proofs in the browser, against vectors of the Python package tonne_verify."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from playwright.async_api import Page

from tests.browser.visit import Visit
from tests.verify.dishonest_pdf import Pdf
from tests.verify.dishonest_seller import tell
from tests.verify.lies import lies
from tonne.platform.web.render import asset_url
from tonne_verify.canonical import canonical_json
from tonne_verify.credentials import sign_credential
from tonne_verify.issuer import Issuer
from tonne_verify.merkle import Range, leaf_hash
from tonne_verify.multibase import encode_multikey
from tonne_verify.notes import Checkpoint, NoteKey, SignatureType, split_note
from tonne_verify.openings import STATEMENT_FORMAT, Opening, StatementKind, names_hash
from tonne_verify.proofs import TlogProof
from tonne_verify.report import Verdict
from tonne_verify.tiles import TileId, inclusion_plan
from tonne_verify.verify_file import verify_file

Json = dict[str, Any]
NUMBER = "7K2M-04QX-9ZTB-C3RD"
ORIGIN, ISSUER = "offsets.example/log", "did:web:offsets.example"
LOG = NoteKey(ORIGIN, Ed25519PrivateKey.from_private_bytes(b"l" * 32))
WITNESS = NoteKey("witness.example/w", Ed25519PrivateKey.from_private_bytes(b"w" * 32), SignatureType.COSIGNATURE)
CREDENTIAL_KEY = Ed25519PrivateKey.from_private_bytes(b"c" * 32)
STRANGER = Ed25519PrivateKey.from_private_bytes(b"s" * 32)
LINE = {"registry": "Gold Standard", "quantity": "1.5", "retirement_url": None, "shared": None}
RUN = """async ([address, credentials, attached, issuer]) => {
  const { examine } = await import(address);
  const lines = await examine(credentials, attached, issuer);
  return lines.map((line) => [line.check, line.verdict, line.text]);
}"""


@dataclass
class Vector:
    """What a file has, and the keys with which it is checked."""

    credential: Json
    attached: list[str]
    issuer: Json

    def sign(self, key: Ed25519PrivateKey = CREDENTIAL_KEY) -> None:
        method = self.issuer["credential_keys"][0]["id"]
        self.credential = sign_credential(self.credential, key, method, "2026-03-01T10:00:00Z")


def issuer_file() -> Json:
    key = {"id": f"{ISSUER}#k1", "public_key_multibase": encode_multikey(CREDENTIAL_KEY.public_key()), "until": None}
    log = {"mode": "live", "origin": ORIGIN, "keys": [LOG.vkey], "witnesses": [WITNESS.vkey], "closed": None}
    return {"format": "tonne-issuer/1", "issuer": ISSUER, "credential_keys": [key], "logs": [log]}


def opening(facts: Json, names: Json | None, kind: StatementKind = StatementKind.ISSUED) -> Opening:
    salt, names_salt = b"1" * 32, b"2" * 32
    statement = {
        "format": STATEMENT_FORMAT,
        "kind": kind,
        "mode": "live",
        "subject": NUMBER,
        "at": "2026-03-01T10:00:00Z",
        "facts": facts,
        "names": None if names is None else names_hash(names, names_salt),
    }
    return Opening(statement, salt, names, None if names is None else names_salt)


def prove(entries: list[bytes], index: int) -> str:
    leaves = [leaf_hash(entry) for entry in entries]
    tree = Range()
    for leaf in leaves:
        tree.append(leaf)
    hashes = inclusion_plan(index, len(leaves)).compute({TileId(0, 0, len(leaves)): b"".join(leaves)})
    text = Checkpoint(ORIGIN, len(leaves), tree.root()).text
    return TlogProof(index, tuple(hashes), f"{text}\n{LOG.sign(text)}{WITNESS.cosign(text, 1_772_000_000)}").format()


def vector(size: int = 7, index: int = 2) -> Vector:
    subject = {
        "number": NUMBER,
        "mode": "live",
        "order_id": "ord_1",
        "total_quantity": "1.5",
        "replaces": None,
        "language": "en",
        "beneficiary": "Ünïcode \u2028 \U0001f333 Ltd",
        "lines": [{**LINE, "registry_name": "Kunden von Ü"}],
    }
    document = {
        "@context": ["https://www.w3.org/ns/credentials/v2"],
        "id": f"https://offsets.example/verify/{NUMBER}",
        "type": ["VerifiableCredential"],
        "issuer": {"id": ISSUER, "name": "Offsets"},
        "validFrom": "2026-03-01T10:00:00Z",
        "credentialSubject": subject,
    }
    facts = {key: value for key, value in subject.items() if key != "beneficiary"} | {
        "lines": [{**LINE, "in_advance": None}],
        "issued_at": document["validFrom"],
        "issuer": "Offsets",
        "verification_url": document["id"],
        "language": "en",
    }
    names = {
        "beneficiary": subject["beneficiary"],
        "reason": None,
        "lines": [{"registry_name": "Kunden von Ü", "assigned_to": None}],
    }
    issued, retired = opening(facts, names), opening({**LINE, "quantity": "2"}, None, StatementKind.RETIREMENT)
    entries = [bytes([number]) * 32 for number in range(size)]
    entries[index], entries[index - 1] = issued.commitment(), retired.commitment()
    proof = prove(entries, index)
    evidence = [
        {"type": "TransparencyLogEntry", **issued.to_json(), "proof": proof},
        {"type": "TransparencyLogEntry", **retired.to_json(), "proof": prove(entries, (index - 1) % size)},
    ]
    found = Vector({**document, "evidence": evidence}, [proof], issuer_file())
    found.sign()
    return found


async def run(page: Page, found: Vector, *texts: str) -> dict[str, tuple[str, str]]:
    """The verdict and the reason of each check. `texts` are credentials instead of that of the vector."""
    credentials = list(texts) or [json.dumps(found.credential)]
    lines = await page.evaluate(RUN, [asset_url("proof.js"), credentials, found.attached, found.issuer])
    return {check: (verdict, text) for check, verdict, text in lines}


GENUINE = {
    "credential": ("holds", "credential_genuine"),
    "facts": ("holds", "facts_same"),
    "retirements": ("holds", "retirements_logged"),
    "log": ("holds", "log_included"),
    "checkpoint": ("holds", "checkpoint_signed"),
}


SUMMARISE = """async ([address, texts, issuer]) => {
  const { examine, summarise } = await import(address);
  const found = [];
  for (const text of texts) found.push(summarise(await examine([text], [], issuer)));
  return found.map((lines) => Object.fromEntries(lines.map(({ check, verdict }) => [check, verdict])));
}"""
# Which checks of the command have to hold for a line of the page.
NAMES_LEFT_OUT = ("names", Verdict.NOT_PROVEN)
NEEDED = {"signed": {"credential"}, "logged": {"log", "facts"}, "cosigned": {"witnesses"}}


async def test_the_page_never_says_more_than_the_command_without_a_policy(visit: Visit) -> None:
    page = await visit("/verify")
    count = 0
    for name, lie in lies().items():
        told = [[each for each in files if not isinstance(each, Pdf)] for files in (lie.files, lie.twin)]
        texts = [json.dumps(each) for files in told for each in tell(files) if "data" not in each]
        shown = await page.evaluate(SUMMARISE, [asset_url("proof.js"), texts, lie.issuer])
        for text, lines in zip(texts, shown, strict=True):
            report = verify_file("credential.json", text.encode(), Issuer.parse(json.dumps(lie.issuer)))
            holding = {each.name for each in report.checks if each.verdict is Verdict.HOLDS}
            holding -= {each.name for each in report.checks if each.verdict is Verdict.FAILS}
            holding -= (
                {"facts"} if any((each.name, each.verdict) == NAMES_LEFT_OUT for each in report.checks) else set()
            )
            for line, verdict in lines.items():
                assert verdict != "holds" or holding >= NEEDED[line], (name, line, report.lines())
            count += sum(verdict == "holds" for verdict in lines.values())
    assert count > 50, "honest certificates are signed and logged"


async def test_what_the_python_package_makes_is_accepted(visit: Visit) -> None:
    page = await visit("/verify")
    for size, index in ((2, 0), (2, 1), (7, 2), (7, 6), (8, 5), (200, 130)):
        assert await run(page, vector(size, index)) == GENUINE, (size, index)
    erased = vector()
    erased.credential["evidence"][0] |= {"names": None, "names_salt": None}
    erased.sign()
    assert (await run(page, erased))["facts"] == ("unchecked", "names_left_out")
    erased.credential["credentialSubject"]["beneficiary"] = "erased"
    erased.sign()
    assert (await run(page, erased))["facts"] == ("holds", "facts_without_names")
    leaked = vector()
    forge_checkpoint(leaked)
    checkpoint = TlogProof.parse(leaked.credential["evidence"][0]["proof"]).checkpoint
    leaked.issuer["logs"][0]["final"] = split_note(checkpoint)[0]
    assert await run(page, leaked) == GENUINE | {"checkpoint": ("holds", "checkpoint_final")}
    unlogged = vector()
    unlogged.credential["evidence"] = []
    unlogged.sign()
    assert await run(page, unlogged) == {"credential": GENUINE["credential"], "log": ("unchecked", "no_proof")}
    assert await run(page, vector(), "", "") == {"credential": ("fails", "several")}
    values = {"Ü": '\u2028"\\\n\x7f\U0001f600', "a": [0, -7, 2**53 - 1, True, None], "\U0001f600": {}, "\ufb33": []}
    canonical = "async ([address, value]) => (await import(address)).canonicalJson(value)"
    found = await page.evaluate(canonical, [asset_url("proof.js"), values])
    assert found.encode() == canonical_json(values)


def set_beneficiary(found: Vector) -> None:
    found.credential["credentialSubject"]["beneficiary"] = "Mallory"


def sign_other_facts(found: Vector) -> None:
    found.credential["credentialSubject"]["total_quantity"] = "1500"
    found.sign()


def sign_other_line(found: Vector) -> None:
    found.credential["credentialSubject"]["lines"][0]["registry"] = "Verra"
    found.sign()


def sign_more_tonnes(found: Vector) -> None:
    """More than were retired."""
    subject = found.credential["credentialSubject"]
    subject["total_quantity"] = subject["lines"][0]["quantity"] = "2.000001"
    found.sign()


def leave_out_retirement(found: Vector) -> None:
    del found.credential["evidence"][1]
    found.sign()


def sign_other_name(found: Vector) -> None:
    found.credential["credentialSubject"]["lines"][0]["registry_name"] = "Mallory"
    found.sign()


def sign_other_names(found: Vector) -> None:
    set_beneficiary(found)
    found.credential["evidence"][0]["names"]["beneficiary"] = "Mallory"
    found.sign()


def sign_other_statement(found: Vector) -> None:
    found.credential["credentialSubject"]["total_quantity"] = "1500"
    found.credential["evidence"][0]["statement"]["facts"]["total_quantity"] = "1500"
    found.sign()


def forge(found: Vector) -> None:
    found.sign(STRANGER)


def revoke(found: Vector) -> None:
    found.issuer["credential_keys"][0]["revoked_from"] = "2026-02-01T00:00:00Z"


def retire(found: Vector) -> None:
    found.issuer["credential_keys"][0]["until"] = "2026-02-01T00:00:00Z"


def leave_out_key(found: Vector) -> None:
    found.issuer["credential_keys"][0]["id"] += "x"


def change_issuer(found: Vector) -> None:
    found.issuer["issuer"] = "did:web:other.example"


def change_proof(old: str, new: str) -> Callable[[Vector], None]:
    def change(found: Vector) -> None:
        evidence = found.credential["evidence"][0]
        assert old in evidence["proof"]
        evidence["proof"] = evidence["proof"].replace(old, new, 1)
        found.sign()

    return change


def change_attachment(found: Vector) -> None:
    found.attached = [found.attached[0].replace("index 2", "index 3")]


def change_hash(found: Vector) -> None:
    proof = found.credential["evidence"][0]["proof"]
    first = proof.split("\n")[2]
    change_proof(first, base64.b64encode(b"x" * 32).decode())(found)


def forge_checkpoint(found: Vector) -> None:
    """Someone else signs a checkpoint in the name of the log."""
    stranger = NoteKey(ORIGIN, STRANGER)
    proof = TlogProof.parse(found.credential["evidence"][0]["proof"])
    text = proof.checkpoint.partition("\n\n")[0] + "\n"
    forged = TlogProof(proof.index, proof.hashes, f"{text}\n{stranger.sign(text)}").format()
    found.credential["evidence"][0]["proof"], found.attached = forged, []
    found.sign()


def swap_mode(found: Vector) -> None:
    found.issuer["logs"][0]["mode"] = "test"


def forge_cosignature(found: Vector) -> None:
    witness = NoteKey(WITNESS.name, STRANGER, SignatureType.COSIGNATURE)
    line = witness.cosign("x", 1).split(" ")[2]
    own = base64.b64encode(WITNESS.public.id + base64.b64decode(line)[4:]).decode()
    proof = found.credential["evidence"][0]["proof"]
    last = proof.rstrip("\n").rpartition(" ")[2]
    change_proof(last, own)(found)


TAMPERED: list[tuple[Callable[[Vector], None], str, str]] = [
    (set_beneficiary, "credential", "credential_changed"),
    (forge, "credential", "credential_changed"),
    (revoke, "credential", "key_ended"),
    (retire, "credential", "key_ended"),
    (leave_out_key, "credential", "unknown_key"),
    (change_issuer, "credential", "other_issuer"),
    (sign_other_facts, "facts", "facts_differ"),
    (sign_other_line, "facts", "facts_differ"),
    (sign_other_facts, "retirements", "retirements_missing"),
    (sign_more_tonnes, "retirements", "retirements_missing"),
    (leave_out_retirement, "retirements", "retirements_missing"),
    (sign_other_name, "facts", "facts_differ"),
    (sign_other_names, "facts", "names_changed"),
    (sign_other_statement, "log", "not_in_log"),
    (change_proof("index 2", "index 3"), "log", "not_in_log"),
    (change_proof("index 2", "index 9"), "log", "not_in_log"),
    (change_proof("index 2", "index 02"), "checkpoint", "malformed"),
    (change_proof("\n7\n", "\n8\n"), "checkpoint", "checkpoint_changed"),
    (change_proof(ORIGIN, "other.example/log"), "checkpoint", "other_log"),
    (change_hash, "log", "not_in_log"),
    (change_attachment, "log", "not_in_log"),
    (forge_checkpoint, "checkpoint", "checkpoint_changed"),
    (forge_cosignature, "checkpoint", "checkpoint_changed"),
    (swap_mode, "log", "other_log"),
]


async def test_every_change_is_detected(visit: Visit) -> None:
    page = await visit("/verify")
    for tamper, check, reason in TAMPERED:
        found = vector()
        tamper(found)
        assert (await run(page, found))[check] == ("fails", reason), tamper
    text = json.dumps(vector().credential)
    twice = text.replace('"number": ', '"number": "other", "number": ', 1)
    assert (await run(page, vector(), twice))["credential"] == ("fails", "malformed")
    page = await visit("/verify")
    without = "() => { crypto.subtle.importKey = async () => { throw new DOMException('no', 'NotSupportedError'); }; }"
    await page.evaluate(without)
    assert await run(page, vector()) == {"credential": ("unchecked", "no_ed25519")}
