"""Shadow attacks on a signed PDF: what it shows is replaced after it was signed, without touching what was signed."""

import re
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pyhanko.keys import load_certs_from_pemder_data, load_private_key_from_pemder_data
from pyhanko.pdf_utils import generic as untyped_generic
from pyhanko.pdf_utils import writer as untyped_writer
from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign.signers import PdfTimeStamper
from pyhanko.sign.timestamps.dummy_client import DummyTimeStamper
from pyhanko.sign.validation.dss import DocumentSecurityStore
from pyhanko_certvalidator import ValidationContext

from tests.verify.seller import Seller, make_document_key, make_pdf
from tonne_verify.report import Report
from tonne_verify.verify_file import verify_file

# Much of pyHanko has no types.
generic: Any = untyped_generic
writer: Any = untyped_writer
SHOWN, HIDDEN = b"BT /F1 12 Tf 20 100 Td (2 t CO2e) Tj ET", b"BT /F1 12 Tf 20 100 Td (2000 t CO2e) Tj ET"
NAME = generic.pdf_name


@pytest.fixture(scope="module")
def prepared(seller: Seller) -> bytes:
    """Unsigned, with a second content that no page shows."""
    return prepare(seller)


def prepare(seller: Seller, *, compressed: bool = False) -> bytes:
    pdf: Any = IncrementalPdfFileWriter(BytesIO(make_pdf(seller._attachments())))
    page = pdf.root["/Pages"]["/Kids"][0]
    font = generic.DictionaryObject(
        {NAME("/Type"): NAME("/Font"), NAME("/Subtype"): NAME("/Type1"), NAME("/BaseFont"): NAME("/Helvetica")}
    )
    fonts = generic.DictionaryObject({NAME("/F1"): pdf.add_object(font)})
    page[NAME("/Resources")] = generic.DictionaryObject({NAME("/Font"): fonts})
    page[NAME("/Contents")] = pdf.add_object(generic.StreamObject(stream_data=SHOWN))
    # Kept alive by a key that no reader knows.
    page[NAME("/Hidden")] = pdf.add_object(generic.StreamObject(stream_data=HIDDEN))
    pdf.update_container(page)
    first, whole = BytesIO(), BytesIO()
    pdf.write(first)
    # All of it again, with a cross-reference stream, as object streams need it, or a table.
    copied = writer.copy_into_new_writer(PdfFileReader(BytesIO(first.getvalue())), {"stream_xrefs": compressed})
    copied.write(whole)
    return whole.getvalue()


def update(signed: bytes, change: Callable[[Any], None]) -> bytes:
    pdf: Any = IncrementalPdfFileWriter(BytesIO(signed))
    change(pdf)
    written = BytesIO()
    pdf.write(written)
    assert written.getvalue().startswith(signed)
    return written.getvalue()


def show_hidden(pdf: Any) -> None:
    page = pdf.root["/Pages"]["/Kids"][0]
    page[NAME("/Contents")] = page.raw_get("/Hidden")
    pdf.update_container(page)


def replace_by_object_stream(pdf: Any) -> None:
    """The page itself is replaced by one in an object stream, which older readers of updates overlook."""
    pages = pdf.root["/Pages"]
    page = pages["/Kids"][0]
    new = generic.DictionaryObject({key: page.raw_get(key) for key in page})
    new[NAME("/Contents")] = page.raw_get("/Hidden")
    stream = pdf.prepare_object_stream()
    pages[NAME("/Kids")] = generic.ArrayObject([pdf.add_object(new, obj_stream=stream)])
    pdf.update_container(pages)


def overwrite_signed_content(pdf: Any) -> None:
    """The object of the signed content gets a newer generation of itself."""
    page = pdf.root["/Pages"]["/Kids"][0]
    reference = page.raw_get("/Contents")
    pdf.objects[(reference.generation, reference.idnum)] = generic.StreamObject(stream_data=HIDDEN)


def cover_with_annotation(pdf: Any) -> None:
    page = pdf.root["/Pages"]["/Kids"][0]
    appearance = generic.StreamObject(
        {NAME("/Type"): NAME("/XObject"), NAME("/Subtype"): NAME("/Form"), NAME("/BBox"): box()}, stream_data=HIDDEN
    )
    stamp = generic.DictionaryObject(
        {
            NAME("/Type"): NAME("/Annot"),
            NAME("/Subtype"): NAME("/Stamp"),
            NAME("/Rect"): box(),
            NAME("/AP"): generic.DictionaryObject({NAME("/N"): pdf.add_object(appearance)}),
        }
    )
    found = list(page.get("/Annots", generic.ArrayObject()))
    page[NAME("/Annots")] = generic.ArrayObject([*found, pdf.add_object(stamp)])
    pdf.update_container(page)


def box() -> Any:
    return generic.ArrayObject([generic.NumberObject(each) for each in (0, 0, 200, 200)])


def content_of(pdf: bytes) -> bytes:
    """What a reader of PDFs draws."""
    root: Any = PdfFileReader(BytesIO(pdf)).root
    return bytes(root["/Pages"]["/Kids"][0]["/Contents"].data)


def verify(pdf: bytes, seller: Seller) -> Report:
    return verify_file("certificate.pdf", pdf, seller.issuer(), seller.policy())


def failure(report: Report) -> str:
    assert report.exit_code == 1, report.lines()
    assert report.facts == [], "a document that somebody changed states nothing"
    return next(each.sentence for each in report.checks if each.name == "signature")


@pytest.mark.parametrize(
    ("attack", "compressed"),
    [
        (show_hidden, False),
        (show_hidden, True),
        (replace_by_object_stream, True),
        (overwrite_signed_content, False),
        (overwrite_signed_content, True),
    ],
)
def test_replaced_content_is_refused(seller: Seller, attack: Callable[[Any], None], *, compressed: bool) -> None:
    signed = seller.sign_pdf(prepare(seller, compressed=compressed))
    assert verify(signed, seller).exit_code == 0, verify(signed, seller).lines()
    shadow = update(signed, attack)
    assert (content_of(signed), content_of(shadow)) == (SHOWN, HIDDEN)
    assert "Something was added to the PDF after it was signed" in failure(verify(shadow, seller))


def test_other_updates_are_refused(seller: Seller, prepared: bytes) -> None:
    signed = seller.sign_pdf(prepared)
    for changed in (update(signed, cover_with_annotation), signed + b"% nothing\n"):
        assert "Something was added to the PDF" in failure(verify(changed, seller))
    # Signed once more, so that the last signature covers all of it.
    again = seller.sign_pdf(update(signed, show_hidden), "Again")
    assert "more than one signature" in failure(verify(again, seller))
    # Somebody else's signature over a changed copy.
    stranger = Seller().sign_pdf(prepared.replace(SHOWN, SHOWN.replace(b"2 t", b"9 t")))
    assert "a key that the issuer file does not list" in failure(verify(stranger, seller))


def add_validation_data(pdf: bytes, seller: Seller) -> bytes:
    """As archives do: a DSS with the certificate, in a new revision."""
    writer_: Any = IncrementalPdfFileWriter(BytesIO(pdf))
    own = load_certs_from_pemder_data(seller.document_key[1].public_bytes(Encoding.DER))
    contents = writer_.prev.embedded_signatures[-1].pkcs7_content.hex().upper().encode()
    context: Any = ValidationContext(trust_roots=list(own), allow_fetching=False)
    DocumentSecurityStore.supply_dss_in_writer(writer_, contents, validation_context=context, certs=list(own))
    written = BytesIO()
    writer_.write(written)
    return written.getvalue()


def add_time_stamp(pdf: bytes) -> bytes:
    key, certificate = make_document_key("Time authority")
    private = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    (own,) = load_certs_from_pemder_data(certificate.public_bytes(Encoding.DER))
    stamper: Any = DummyTimeStamper(own, load_private_key_from_pemder_data(private, None))
    stamped = PdfTimeStamper(stamper).timestamp_pdf(IncrementalPdfFileWriter(BytesIO(pdf)), "sha256")
    return bytes(stamped.getvalue())


def test_validation_data_and_document_time_stamps_may_follow_and_nothing_else(seller: Seller, prepared: bytes) -> None:
    signed = seller.sign_pdf(prepared)
    archived = add_validation_data(signed, seller)
    stamped = add_time_stamp(archived)
    renewed = add_time_stamp(add_validation_data(stamped, seller))
    for kept in (archived, stamped, renewed, add_time_stamp(signed)):
        assert verify(kept, seller).exit_code == 0, verify(kept, seller).lines()
    for attack in (show_hidden, overwrite_signed_content, cover_with_annotation):
        changed = update(archived, attack)
        # Stamped afterwards, so that a valid time stamp covers the change.
        for shadow in (changed, add_time_stamp(changed), update(stamped, attack)):
            assert "Something was added" in failure(verify(shadow, seller)), attack
    for cut in (stamped + b"% nothing\n", stamped[:-8]):
        assert failure(verify(cut, seller))
    # The time stamp of another file.
    found = re.findall(rb"/Contents <([0-9a-fA-F]+)>", stamped)[-1]
    digits = bytearray(found)
    digits[2000:2004] = b"0000" if digits[2000:2004] != b"0000" else b"1111"
    assert failure(verify(stamped.replace(found, bytes(digits)), seller))


def test_a_changed_range_of_signed_bytes_is_refused(seller: Seller, prepared: bytes) -> None:
    """The update is hidden in the gap of the signature, or the range leaves it out."""
    signed = seller.sign_pdf(prepared)
    shadow = update(signed, show_hidden)
    found = re.search(rb"/ByteRange \[0 (\d+) (\d+) (\d+)\s*\]", signed)
    assert found is not None
    added = len(shadow) - len(signed)
    length = int(found[3])
    # As if everything up to the end were signed: the digest is another one.
    stretched = (b"/ByteRange [0 %s %s %d" % (found[1], found[2], length + added)).ljust(len(found[0]) - 1) + b"]"
    assert len(stretched) == len(found[0])
    assert "changed after it was signed" in failure(verify(shadow.replace(found[0], stretched, 1), seller))
    # In the zeros behind the signature, which no digest covers.
    before, after = int(found[1]), int(found[2])
    gap = bytearray(signed)
    gap[after - 41 : after - 1] = b"%PDF-1.7 1 0 obj << /Type /Catalog >> \n "[:40].ljust(40)
    assert failure(verify(bytes(gap), seller))
    gap = bytearray(signed)
    gap[after - 5 : after - 1] = b"beef"
    assert failure(verify(bytes(gap), seller))
    assert signed[before : before + 1] == b"<"
