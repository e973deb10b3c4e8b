"""A dishonest seller with keys of his own. He shares no code with what checks him; `lies.py` has what he says.

Written from the specifications: RFC 6962, c2sp.org/signed-note, tlog-checkpoint, tlog-cosignature, tlog-proof,
tlog-policy, W3C Verifiable Credentials 2.0, eddsa-jcs-2022 and RFC 8785.
"""

import base64
import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Json = dict[str, Any]
HOST = "cheap-tonnes.example"
ORIGIN = f"{HOST}/log"
METHOD = f"did:web:{HOST}#key"
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
SERIAL = "9731-{}-{}-VCS-VCU-1-VER-KE-1-1-01012024-31122024-0"


def key(seed: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(seed.encode()).digest())


def public(private: Ed25519PrivateKey) -> bytes:
    return private.public_key().public_bytes_raw()


def canonical(value: Any) -> bytes:
    """RFC 8785 for values without fractions, whose keys are ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def base58(data: bytes) -> str:
    number, text = int.from_bytes(data), ""
    while number:
        number, rest = divmod(number, 58)
        text = BASE58[rest] + text
    return "z" + "1" * (len(data) - len(data.lstrip(b"\0"))) + text


# Notes


def key_id(name: str, kind: int, material: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + bytes([kind]) + material).digest()[:4]


def vkey(name: str, kind: int, private: Ed25519PrivateKey) -> str:
    material = public(private)
    return f"{name}+{key_id(name, kind, material).hex()}+{b64(bytes([kind]) + material)}"


def line(name: str, kind: int, private: Ed25519PrivateKey, signature: bytes) -> str:
    return f"\u2014 {name} {b64(key_id(name, kind, public(private)) + signature)}\n"


def seconds(at: str) -> int:
    return int(datetime.fromisoformat(at).timestamp())


def cosignature(name: str, private: Ed25519PrivateKey, text: str, at: str) -> str:
    signed = private.sign(f"cosignature/v1\ntime {seconds(at)}\n{text}".encode())
    return line(name, 4, private, struct.pack(">Q", seconds(at)) + signed)


# RFC 6962, as it defines the tree


def leaf(entry: bytes) -> bytes:
    return hashlib.sha256(b"\0" + entry).digest()


def node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def split(count: int) -> int:
    return 1 << (count - 1).bit_length() - 1


def root(entries: Sequence[bytes]) -> bytes:
    if not entries:
        return hashlib.sha256(b"").digest()
    if len(entries) == 1:
        return leaf(entries[0])
    at = split(len(entries))
    return node(root(entries[:at]), root(entries[at:]))


def path(index: int, entries: Sequence[bytes]) -> list[bytes]:
    if len(entries) == 1:
        return []
    at = split(len(entries))
    if index < at:
        return [*path(index, entries[:at]), root(entries[at:])]
    return [*path(index - at, entries[at:]), root(entries[:at])]


# What he says


@dataclass(frozen=True)
class Retirement:
    """`first` and `last` are serials. `retired` is what the log states, `claimed` what the certificate does."""

    first: int = 17
    last: int = 18
    retired: str = "2"
    claimed: str = "2"
    retired_on: str = "2024-05-03"
    parcel: str = "par_1"
    serial: str = SERIAL
    registry: str = "verra"
    revision: int = 1
    vintage: str = "2024"
    in_advance: tuple[tuple[str, Any], ...] = ()
    project: str = "VCS-1"
    # How serials name the project; stated in the log only.
    alias: str | None = None
    country: str | None = None
    # Logged with the line, and stated.
    labels: tuple[str, ...] = ()
    mechanism: str | None = None

    @property
    def facts(self) -> Json:
        return {
            "registry": self.registry,
            "project_id": self.project,
            "vintage": self.vintage,
            "serial_range": self.serial.format(self.first, self.last),
            "retired_on": self.retired_on,
            "retirement_url": None,
        }

    @property
    def stated(self) -> Json:
        revision = {"revision": self.revision} if self.revision > 1 else {}
        alias = {} if self.alias is None else {"serial_project": self.alias}
        return {**self.facts, "quantity": self.retired, **alias, **revision}

    @property
    def line(self) -> Json:
        known = {"labels": list(self.labels) or None, "mechanism": self.mechanism}
        frozen = {"facts": {name: each for name, each in known.items() if each is not None}}
        more = {
            **(frozen if frozen["facts"] else {}),
            "country": self.country,
            "shared": None,
            "in_advance": dict(self.in_advance) or None,
        }
        return {**self.facts, "project_name": "Wind farm", "quantity": self.claimed, **more}


@dataclass(frozen=True)
class Certificate:
    number: str = "AAAA-BBBB-CCCC-DDDD"
    beneficiary: str = "Acme Ltd"
    total: str = "2"
    issued_at: str = "2024-05-04T10:00:00Z"
    mode: str = "live"
    retirements: tuple[Retirement, ...] = (Retirement(),)
    replaces: str | None = None
    # Entries about the certificate that he logs afterwards, and hands out with it.
    later: tuple[tuple[str, Json, str], ...] = ()
    logged: bool = True
    cosigned_at: str | None = "2024-05-04T10:00:20Z"
    witness: str = "known"
    # In which of his logs of one origin it is; the log that he opened anew has another origin.
    history: str = "shown to all"
    generation: str = ""
    signed_at: str | None = None
    # The credential says this; the log, the opposite.
    contradiction: tuple[tuple[str, Any], ...] = ()
    # The log has a hash of the names, and they are handed out with it.
    names_hashed: bool = True
    names_kept: bool = True

    @property
    def facts(self) -> Json:
        return {
            "number": self.number,
            "mode": self.mode,
            "order_id": f"ord_{self.number}",
            "total_quantity": self.total,
            "lines": [each.line for each in self.retirements],
            "replaces": None if self.replaces is None else {"number": self.replaces},
            "issued_at": self.issued_at,
            "verification_url": f"https://{HOST}/verify/{self.number}",
        }


WITNESSES = {
    # The one that the auditor trusts; one of his own; his key with the name of the first.
    "known": ("witness.example/w1", key("witness")),
    "invented": ("witness.invented.example/w9", key("invented")),
    "impostor": ("witness.example/w1", key("impostor")),
}


def statement(
    kind: str, subject: str, at: str, mode: str, facts: Json, *, names: Json | None = None, seed: str = ""
) -> Json:
    names_salt = hashlib.sha256(f"names of {subject}{seed}".encode()).digest()
    hashed = None if names is None else hashlib.sha256(names_salt + canonical(names)).hexdigest()
    stated = {
        "format": "tonne-statement/1",
        "kind": kind,
        "mode": mode,
        "subject": subject,
        "at": at,
        "facts": facts,
        "names": hashed,
    }
    salt = hashlib.sha256(seed.encode() + canonical(stated)).hexdigest()
    return {
        "statement": stated,
        "salt": salt,
        "names": names,
        "names_salt": None if names is None else names_salt.hex(),
    }


def entry(opening: Json) -> bytes:
    return hashlib.sha256(bytes.fromhex(opening["salt"]) + canonical(opening["statement"])).digest()


def openings_of(made: Certificate) -> list[Json]:
    names = {
        "beneficiary": made.beneficiary,
        "reason": None,
        "lines": [{"registry_name": None, "assigned_to": None} for _ in made.retirements],
    }

    def state(kind: str, subject: str, at: str, facts: Json, names: Json | None = None) -> Json:
        return statement(kind, subject, at, made.mode, facts, names=names, seed=made.generation)

    issued = state("certificate.issued", made.number, made.issued_at, made.facts, names if made.names_hashed else None)
    found = [issued if made.names_kept else {**issued, "names": None, "names_salt": None}]
    found += [state("retirement", each.parcel, made.issued_at, each.stated) for each in made.retirements]
    return found + [state(kind, made.number, at, facts) for kind, facts, at in made.later]


class Logs:
    """His logs. Each certificate is added to what its log has, and proven by the checkpoint that follows."""

    def __init__(self) -> None:
        self.entries: dict[str, list[bytes]] = {}
        self._published: dict[str, list[Json]] = {}

    def publish(self, made: Certificate) -> list[Json]:
        """The openings with proofs. What is published twice is added once."""
        name = repr(made)
        if name not in self._published:
            self._published[name] = self._add(made)
        return self._published[name]

    def _add(self, made: Certificate) -> list[Json]:
        openings, log_key = openings_of(made), key("log")
        origin = f"{ORIGIN}{made.generation}" if made.mode == "live" else f"{ORIGIN}/test"
        first = [hashlib.sha256(f"{made.history} {i}".encode()).digest() for i in range(4)]
        entries = self.entries.setdefault(f"{origin} {made.history}", first)
        start = len(entries)
        entries += [entry(each) for each in openings]
        text = f"{origin}\n{len(entries)}\n{b64(root(entries))}\n"
        note = f"{text}\n{line(origin, 1, log_key, log_key.sign(text.encode()))}"
        if made.cosigned_at is not None:
            note += cosignature(*WITNESSES[made.witness], text, made.cosigned_at)
        found = []
        for index, opening in enumerate(openings, start=start):
            hashes = "".join(f"{b64(each)}\n" for each in path(index, entries))
            proof = f"c2sp.org/tlog-proof@v1\nindex {index}\n{hashes}\n{note}"
            found.append({"type": "TransparencyLogEntry", **opening, "proof": proof})
        return found


@dataclass(frozen=True)
class Listed:
    """What a Sustainability page publishes of its certificates."""

    made: tuple[Certificate, ...]


def tell(files: Sequence[Certificate | Listed], logs: Logs | None = None) -> list[Json]:
    """The files, as he hands them out together: their entries are in one log, unless he has several."""
    logs = logs or Logs()
    return [credential(each, logs) if isinstance(each, Certificate) else page(each, logs) for each in files]


def page(listed: Listed, logs: Logs) -> Json:
    data = [{"number": each.number, "evidence": logs.publish(each)} for each in listed.made]
    return {"data": data, "has_more": False, "next_cursor": None}


def credential(made: Certificate, logs: Logs) -> Json:
    subject = {name: made.facts[name] for name in ("number", "mode", "order_id", "total_quantity", "lines", "replaces")}
    document = {
        "@context": ["https://www.w3.org/ns/credentials/v2"],
        "id": made.facts["verification_url"],
        "type": ["VerifiableCredential", "CarbonRetirementCertificate"],
        "issuer": {"id": f"did:web:{HOST}"},
        "validFrom": made.issued_at,
        "credentialSubject": {**subject, "beneficiary": made.beneficiary, **dict(made.contradiction)},
    }
    if made.logged:
        document["evidence"] = logs.publish(made)
    proof = {
        "type": "DataIntegrityProof",
        "cryptosuite": "eddsa-jcs-2022",
        "created": made.signed_at or made.issued_at,
        "verificationMethod": METHOD,
        "proofPurpose": "assertionMethod",
        "@context": document["@context"],
    }
    message = hashlib.sha256(canonical(proof)).digest() + hashlib.sha256(canonical(document)).digest()
    return {**document, "proof": {**proof, "proofValue": base58(key("credential").sign(message))}}


def issuer_file(key_from: str = "2020-01-01T00:00:00Z") -> Json:
    multikey = base58(bytes([0xED, 0x01]) + public(key("credential")))
    named = [vkey(name, 4, private) for name, private in WITNESSES.values()]
    logs = [
        {
            "mode": mode,
            "origin": origin,
            "url": f"https://{origin}",
            "keys": [vkey(origin, 1, key("log"))],
            "witnesses": named,
            "closed": None,
            "final": None,
        }
        for mode, origin in (("live", ORIGIN), ("live", f"{ORIGIN}/2"), ("test", f"{ORIGIN}/test"))
    ]
    keys = [{"id": METHOD, "public_key_multibase": multikey, "from": key_from, "until": None}]
    return {
        "format": "tonne-issuer/1",
        "issuer": f"did:web:{HOST}",
        "name": "Cheap Tonnes",
        "credential_keys": keys,
        "document_certificates": [],
        "logs": logs,
    }


def policy() -> str:
    return f"witness w1 {vkey(WITNESSES['known'][0], 4, WITNESSES['known'][1])}\nquorum w1\n"
