"""The PDF of a certificate carries its credential and the proof from the log."""

import hashlib
import io
import json

import msgspec
import pypdf

from tests.supply.certificates.credentials.scene import Json, Verifier
from tests.support.certificates import RECORD
from tests.support.pdf_a import breaches
from tests.support.pdf_pages import page_texts
from tonne.platform.values.context import utc_now
from tonne.supply.certificates.pdf import certificate_pdf
from tonne.supply.certificates.store import find_by_number_any_account, record_document_any_account

CREDENTIAL, PROOF = "credential.json", "certificate.tlog-proof"


def attachments(pdf: bytes) -> dict[str, str]:
    found = pypdf.PdfReader(io.BytesIO(pdf)).attachments
    return {name: content.decode() for name, [content] in found.items()}


async def download(verifier: Verifier, order_id: str) -> bytes:
    """Drawn twice, with the same result."""
    answers = [await verifier.api.get(f"/v1/orders/{order_id}/certificate") for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 200]
    assert answers[0].content == answers[1].content
    return answers[0].content


async def is_recognised(verifier: Verifier, number: str, pdf: bytes) -> bool:
    page = await verifier.shopper.open(f"/verify/{number}", sha256=hashlib.sha256(pdf).hexdigest())
    return "Your file is the unchanged original." in page.text


async def test_the_credential_and_the_proof_are_attached(verifier: Verifier) -> None:
    order_id, number = await verifier.complete_order()
    early = await download(verifier, order_id)
    assert list(attachments(early)) == [CREDENTIAL], "no checkpoint covers it yet"
    assert json.loads(attachments(early)[CREDENTIAL]) == await verifier.credential(order_id)
    await verifier.publish()
    pdf = await download(verifier, order_id)
    attached = attachments(pdf)
    credential: Json = json.loads(attached[CREDENTIAL])
    assert set(attached) == {CREDENTIAL, PROOF}
    assert credential == await verifier.credential(order_id)
    assert attached[PROOF] == credential["evidence"][0]["proof"]
    assert (await verifier.check(credential))[0] == "certificate.issued"
    assert page_texts(pdf) == page_texts(early), "people see no difference"
    assert (breaches(early), breaches(pdf)) == ([], []), "PDF/A-3 with attachments and signature"
    for version in (early, pdf):
        assert await is_recognised(verifier, number, version)

    # What becomes of the certificate later does not change its PDF.
    await verifier.complete_order()
    await verifier.withdraw(order_id)
    await verifier.publish()
    assert await download(verifier, order_id) == pdf


def test_a_character_that_no_font_has_is_drawn_all_the_same_but_not_as_pdf_a() -> None:
    unknown = certificate_pdf(msgspec.structs.replace(RECORD, beneficiary="Smile 😀 Ltd"))
    assert any("the metadata claim" in each for each in breaches(unknown))
    assert "Ltd" in page_texts(unknown)[0]
    assert breaches(certificate_pdf(RECORD)) == []


async def test_the_pdf_of_an_erased_person_still_verifies(verifier: Verifier) -> None:
    order_id = await verifier.buys()
    await verifier.publish()
    before = await download(verifier, order_id)
    await verifier.erase()
    after = await download(verifier, order_id)
    number = json.loads(attachments(after)[CREDENTIAL])["credentialSubject"]["number"]
    assert "Ada Keller" in attachments(before)[CREDENTIAL]
    assert "Ada Keller" not in attachments(after)[CREDENTIAL]
    assert attachments(after)[PROOF] == attachments(before)[PROOF]
    assert "certificate.issued" in await verifier.check(json.loads(attachments(after)[CREDENTIAL]))
    for version in (before, after):
        assert await is_recognised(verifier, number, version)


async def test_a_pdf_of_a_release_without_signatures_is_still_recognised(verifier: Verifier) -> None:
    order_id, number = await verifier.complete_order()
    async with verifier.services.database.connection() as connection:
        stored = await find_by_number_any_account(connection, number)
        assert stored is not None
        old = certificate_pdf(stored.record)
        await record_document_any_account(connection, number, hashlib.sha256(old).digest(), utc_now())
    await verifier.publish()
    assert attachments(old) == {}
    for version in (old, await download(verifier, order_id)):
        assert await is_recognised(verifier, number, version)
    assert not await is_recognised(verifier, number, old + b"\n")
