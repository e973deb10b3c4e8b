"""A seller with keys, a log, and certificates in all forms: PDF, credential, status list. Signs with pyHanko itself."""

import base64
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from pyhanko.keys import load_certs_from_pemder_data, load_private_key_from_pemder_data
from pyhanko.pdf_utils import embed, generic, writer
from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
from pyhanko.sign import PdfSignatureMetadata, PdfSigner, SimpleSigner
from pyhanko.sign.fields import SigSeedSubFilter
from pyhanko.sign.timestamps import TimeStamper
from pyhanko_certvalidator.registry import SimpleCertificateStore

from tests.verify.test_merkle import make_tiles, naive_root
from tonne_verify.credentials import sign_credential
from tonne_verify.issuer import Issuer
from tonne_verify.merkle import leaf_hash
from tonne_verify.multibase import encode_multikey
from tonne_verify.notes import Checkpoint, NoteKey, SignatureType
from tonne_verify.openings import Opening, names_hash
from tonne_verify.policy import Policy
from tonne_verify.proofs import TlogProof
from tonne_verify.tiles import inclusion_plan

HOST = "offsets.example.com"
DID = f"did:web:{HOST}"
METHOD = f"{DID}#k1"
ISSUED_AT = "2026-05-04T10:00:00Z"
COSIGNED_AT = int(datetime.fromisoformat(ISSUED_AT).timestamp()) + 20
NUMBER = "7XKD-M2QH-9RTV-4WNC"
LINE = {
    "registry": "verra",
    "project_id": "VCS-1",
    "project_name": "Wind farm",
    "vintage": "2024",
    "serial_range": "9731-17-18-VCS-VCU-1-VER-KE-1-1-01012024-31122024-0",
    "quantity": "1.5",
    "retired_on": "2026-05-03",
    "retirement_url": "https://registry.example/99",
    "shared": {"unit_quantity": "2", "share": "1.5"},
    "in_advance": None,
    "registry_name": None,
}
SUBJECT = {
    "number": NUMBER,
    "mode": "live",
    "order_id": "ord_1",
    "beneficiary": "Ada Lovelace",
    "total_quantity": "1.5",
    "lines": [LINE],
    "replaces": None,
}
NAMES = {
    "beneficiary": "Ada Lovelace",
    "reason": None,
    "lines": [{"registry_name": None, "assigned_to": None}],
}


def certificate_facts() -> dict[str, Any]:
    line = {key: value for key, value in LINE.items() if key != "registry_name"}
    facts = {key: value for key, value in SUBJECT.items() if key != "beneficiary"}
    address = f"https://{HOST}/verify/{NUMBER}"
    return {**facts, "lines": [line], "issued_at": ISSUED_AT, "verification_url": address, "language": "en"}


def retirement_facts(**changes: Any) -> dict[str, Any]:
    keys = ("registry", "project_id", "vintage", "serial_range", "retired_on", "retirement_url")
    return {**{key: LINE[key] for key in keys}, "quantity": "2", **changes}


def make_opening(kind: str, subject: str, facts: dict[str, Any], names: dict[str, Any] | None = None) -> Opening:
    statement = {
        "format": "tonne-statement/1",
        "kind": kind,
        "mode": "live",
        "subject": subject,
        "at": ISSUED_AT,
        "facts": facts,
        "names": None if names is None else names_hash(names, b"n" * 32),
    }
    return Opening(statement, kind.encode().ljust(32, b"s")[:32], names, None if names is None else b"n" * 32)


def make_document_key(name: str = "Example Offsets") -> tuple[rsa.RSAPrivateKey, x509.Certificate]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    start = datetime(2020, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1000)
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=36500))
        .sign(key, hashes.SHA256())
    )
    return key, certificate


@dataclass
class Seller:
    document_key: tuple[rsa.RSAPrivateKey, x509.Certificate] = field(default_factory=make_document_key)
    credential_key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    log_key: NoteKey = field(default_factory=lambda: NoteKey(f"{HOST}/log", Ed25519PrivateKey.generate()))
    witness: NoteKey = field(
        default_factory=lambda: NoteKey("witness.example/w", Ed25519PrivateKey.generate(), SignatureType.COSIGNATURE)
    )

    def issuer_json(self, **changes: Any) -> dict[str, Any]:
        log = {
            "mode": "live",
            "origin": self.log_key.name,
            "url": f"https://{HOST}/log",
            "keys": [self.log_key.vkey],
            "witnesses": [self.witness.vkey],
            "closed": None,
        }
        key = {"id": METHOD, "public_key_multibase": encode_multikey(self.credential_key.public_key()), "until": None}
        return {
            "format": "tonne-issuer/1",
            "issuer": DID,
            "name": "Example Offsets",
            "credential_keys": [key],
            "document_certificates": [self.document_key[1].public_bytes(Encoding.PEM).decode()],
            "logs": [log],
            **changes,
        }

    def issuer(self, **changes: Any) -> Issuer:
        return Issuer.parse(json.dumps(self.issuer_json(**changes)))

    def policy_text(self) -> str:
        return f"log {self.log_key.vkey}\nwitness w {self.witness.vkey}\nquorum w\n"

    def policy(self) -> Policy:
        return Policy.parse(self.policy_text().encode(), "policy")

    def prove(self, openings: Sequence[Opening], *, cosigned: bool = True) -> list[dict[str, Any]]:
        """The openings, logged after some other entries, with their proofs."""
        entries = [bytes([i]) * 32 for i in range(5)] + [each.commitment() for each in openings]
        leaves = [leaf_hash(each) for each in entries]
        text = Checkpoint(self.log_key.name, len(leaves), naive_root(leaves)).text
        note = f"{text}\n{self.log_key.sign(text)}" + (self.witness.cosign(text, COSIGNED_AT) if cosigned else "")
        tiles, found = make_tiles(leaves), []
        for index, opening in enumerate(openings, start=5):
            hashes_found = inclusion_plan(index, len(leaves)).compute(tiles)
            proof = TlogProof(index, tuple(hashes_found), note)
            found.append({"type": "TransparencyLogEntry", **opening.to_json(), "proof": proof.format()})
        return found

    def evidence(self, *more: Opening, cosigned: bool = True) -> list[dict[str, Any]]:
        issued = make_opening("certificate.issued", NUMBER, certificate_facts(), NAMES)
        retired = make_opening("retirement", "par_1", retirement_facts())
        return self.prove([issued, retired, *more], cosigned=cosigned)

    def credential(self, **changes: Any) -> dict[str, Any]:
        document = {
            "@context": ["https://www.w3.org/ns/credentials/v2"],
            "id": f"https://{HOST}/verify/{NUMBER}",
            "type": ["VerifiableCredential", "CarbonRetirementCertificate"],
            "issuer": {"id": DID, "name": "Example Offsets"},
            "validFrom": ISSUED_AT,
            "credentialSubject": SUBJECT,
            "evidence": self.evidence(),
            **changes,
        }
        document = {key: value for key, value in document.items() if value is not None}
        return sign_credential(document, self.credential_key, METHOD, ISSUED_AT)

    def status_list(self, url: str, states: bytes) -> dict[str, Any]:
        encoded = "u" + base64.urlsafe_b64encode(gzip.compress(states)).decode().rstrip("=")
        subject = {"type": "BitstringStatusList", "statusPurpose": "message", "encodedList": encoded}
        return sign_credential({"id": url, "credentialSubject": subject}, self.credential_key, METHOD, ISSUED_AT)

    def pdf(self, attachments: dict[str, bytes] | None = None) -> bytes:
        return self.sign_pdf(make_pdf(self._attachments() if attachments is None else attachments))

    def _attachments(self) -> dict[str, bytes]:
        credential = self.credential()
        proof = credential["evidence"][0]["proof"].encode()
        return {"credential.json": json.dumps(credential).encode(), "certificate.tlog-proof": proof}

    def sign_pdf(self, pdf: bytes, field_name: str = "Seller", stamper: TimeStamper | None = None) -> bytes:
        key, certificate = self.document_key
        (found,) = load_certs_from_pemder_data(certificate.public_bytes(Encoding.DER))
        private = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        signer = SimpleSigner(found, load_private_key_from_pemder_data(private, None), SimpleCertificateStore())  # type: ignore[no-untyped-call]
        metadata = PdfSignatureMetadata(field_name=field_name, subfilter=SigSeedSubFilter.PADES, md_algorithm="sha256")
        return bytes(
            PdfSigner(metadata, signer, timestamper=stamper)
            .sign_pdf(IncrementalPdfFileWriter(BytesIO(pdf)))
            .getbuffer()
        )


def make_pdf(attachments: dict[str, bytes]) -> bytes:
    """One page, and the attachments."""
    pdf = writer.PdfFileWriter()  # type: ignore[no-untyped-call]
    content = generic.StreamObject(stream_data=b"BT ET")
    pdf.insert_page(writer.PageObject(contents=pdf.add_object(content), media_box=(0, 0, 200, 200)))  # type: ignore[no-untyped-call]
    for name, data in attachments.items():
        file = embed.EmbeddedFileObject.from_file_data(pdf, data=data, mime_type="application/json")
        embed.embed_file(pdf, embed.FileSpec(file_spec_string=name, file_name=name, embedded_data=file))
    written = BytesIO()
    pdf.write(written)  # type: ignore[no-untyped-call]
    return written.getvalue()
