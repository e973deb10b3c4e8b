"""PDF files of the dishonest seller, who signs with pyHanko himself. They share no code with what checks them."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from io import BytesIO
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from pyhanko.keys import load_certs_from_pemder_data, load_private_key_from_pemder_data
from pyhanko.pdf_utils import embed, generic, writer
from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
from pyhanko.sign import PdfSignatureMetadata, PdfSigner, SimpleSigner
from pyhanko.sign.fields import SigSeedSubFilter
from pyhanko.sign.timestamps.dummy_client import DummyTimeStamper
from pyhanko_certvalidator.registry import SimpleCertificateStore

from tests.verify.dishonest_seller import Certificate, Json, Logs, credential

# Much of pyHanko has no types.
untyped: Any = writer
NAME = generic.pdf_name
START = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Pdf:
    """`attack` is what he does with the file; empty for nothing."""

    made: Certificate
    attack: str = ""


@cache
def key_of(name: str) -> tuple[rsa.RSAPrivateKey, x509.Certificate]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    certificate = builder.not_valid_before(START).not_valid_after(START + timedelta(days=36500))
    return key, certificate.sign(key, hashes.SHA256())


def document_certificate() -> str:
    return key_of("Cheap Tonnes")[1].public_bytes(Encoding.PEM).decode()


def pdf_of(pdf: Pdf, logs: Logs) -> bytes:
    document = credential(pdf.made, logs)
    proof = document["evidence"][0]["proof"]
    if pdf.attack == "proof of another":
        proof = credential(Certificate(number="EEEE-FFFF-GGGG-HHHH"), logs)["evidence"][0]["proof"]
    signed = sign(
        draw({"credential.json": json.dumps(document), "certificate.tlog-proof": proof}, pdf.made.total),
        "Somebody" if pdf.attack == "signed by somebody" else "Cheap Tonnes",
        timedelta(days=10) if pdf.attack == "stamped late" else timedelta(minutes=1),
    )
    if pdf.attack == "attachment replaced":
        larger = json.dumps(document).replace('"2"', '"9"')
        return update(signed, lambda file: attach(file, "credential.json", larger))
    if pdf.attack == "page replaced":
        return update(signed, show_hidden)
    return signed


def draw(attachments: dict[str, str], total: str) -> bytes:
    pdf = untyped.PdfFileWriter()
    shown, hidden = (
        pdf.add_object(generic.StreamObject(stream_data=f"BT /F1 12 Tf 20 99 Td ({text} t) Tj ET".encode()))
        for text in (total, "9000")
    )
    page = untyped.PageObject(contents=shown, media_box=(0, 0, 200, 200))
    page[NAME("/Hidden")] = hidden
    pdf.insert_page(page)
    for name, content in attachments.items():
        attach(pdf, name, content)
    return written(pdf)


def attach(pdf: Any, name: str, content: str) -> None:
    file = embed.EmbeddedFileObject.from_file_data(pdf, data=content.encode(), mime_type="application/json")
    embed.embed_file(pdf, embed.FileSpec(file_spec_string=name, file_name=name, embedded_data=file))


def show_hidden(pdf: Any) -> None:
    page = pdf.root["/Pages"]["/Kids"][0]
    page[NAME("/Contents")] = page.raw_get("/Hidden")
    pdf.update_container(page)


def update(signed: bytes, change: Any) -> bytes:
    pdf: Any = IncrementalPdfFileWriter(BytesIO(signed))
    change(pdf)
    return written(pdf)


def written(pdf: Any) -> bytes:
    content = BytesIO()
    pdf.write(content)
    return content.getvalue()


def sign(pdf: bytes, name: str, later: timedelta) -> bytes:
    """Stamped later, by an authority of his own."""
    own, private = parts_of(name)
    signer: Any = SimpleSigner(own, private, SimpleCertificateStore())  # type: ignore[no-untyped-call]
    metadata = PdfSignatureMetadata(field_name="Seller", subfilter=SigSeedSubFilter.PADES, md_algorithm="sha256")
    stamper: Any = DummyTimeStamper(*parts_of("Authority"), fixed_dt=datetime.now(UTC) + later)
    done = PdfSigner(metadata, signer, timestamper=stamper).sign_pdf(IncrementalPdfFileWriter(BytesIO(pdf)))
    return bytes(done.getbuffer())


def parts_of(name: str) -> tuple[Any, Any]:
    key, certificate = key_of(name)
    (own,) = load_certs_from_pemder_data(certificate.public_bytes(Encoding.DER))
    private = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return own, load_private_key_from_pemder_data(private, None)


def issuer_with_pdf(issuer: Json) -> Json:
    return {**issuer, "document_certificates": [document_certificate()]}
