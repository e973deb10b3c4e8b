"""The person who paid gets the tax documents of the order: named and linked in mails and on its page."""

from hashlib import sha256

from tests.money.cards.card_scene import GOOD
from tests.money.cards.payer import PayerScene, text_of
from tests.support.pdf_pages import page_texts
from tests.support.world import TESTER
from tonne.money.refunds.request_refund import Cancellation, RefundRequest, cancel_by_id, request_refund
from tonne.selling.orders.model import Order

INVOICE, NOTE = "TN-TEST-000001", "CN-TEST-000001"
TO_PRINT = "Invoice to print or save"
FILES = "SELECT encode(sha256, 'hex') FROM tax_document_files WHERE format = 'pdf' ORDER BY rendered_at, document_id"


async def _pay(payer: PayerScene) -> Order:
    order = await payer.order(GOOD)
    await payer.work()
    return order


async def _open_pdf(payer: PayerScene, path: str) -> tuple[str, str]:
    """Its digest, and its text without spaces: numbers are broken at hyphens."""
    answer = await payer.open(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/pdf")
    assert answer.headers["cache-control"] == "no-store"
    return sha256(answer.content).hexdigest(), "".join("".join(page_texts(answer.content)).split())


async def test_the_mail_about_the_payment_names_and_links_the_document(payer: PayerScene) -> None:
    await _pay(payer)
    [mail] = await payer.mails()
    assert INVOICE in text_of(mail)
    digest, text = await _open_pdf(payer, (await payer.links())[TO_PRINT])
    assert INVOICE in text
    assert await payer.fetchval(FILES) == digest, "rendered at the download, and stored"
    page = (await payer.links())["See your order and its certificate"]
    assert (await _open_pdf(payer, f"{page}/invoice"))[0] == digest
    assert f'href="http://tonne.test{page}/documents/{INVOICE}"' in (await payer.open(page)).text


async def test_a_refund_is_mailed_with_its_credit_note(payer: PayerScene) -> None:
    order = await _pay(payer)
    await payer.mails()
    request = RefundRequest(amount_minor=500, reason="Goodwill")
    async with payer.database.transaction() as tx:
        await request_refund(tx, payer.scope, order.id, request, settings=payer.settings, by=TESTER.at(payer.clock()))
    await payer.run_jobs(payer.refunds)
    _, mail = await payer.mails()
    assert NOTE in text_of(mail)
    links = await payer.links()
    digest, text = await _open_pdf(payer, links["Credit note to print or save"])
    assert NOTE in text
    assert INVOICE in text
    assert await payer.fetchval(FILES) == digest
    page = (await payer.open(links["See your order"])).text
    assert page.index(INVOICE) < page.index(NOTE)


async def test_a_cancellation_is_credited_and_its_refund_names_the_note(payer: PayerScene) -> None:
    order = await _pay(payer)
    await payer.mails()
    cancellation = Cancellation(reason="Ordered twice", with_refund=True)
    async with payer.database.transaction() as tx:
        by = TESTER.at(payer.clock())
        await cancel_by_id(tx, payer.scope, order.id, cancellation, settings=payer.settings, by=by)
    await payer.run_jobs(payer.refunds)
    *_, mail = await payer.mails()
    assert mail["Subject"] == "[TEST] Your refund of €13.95"
    assert NOTE in text_of(mail)
    assert "Credit note to print or save" in await payer.links()


async def test_an_order_that_is_cancelled_before_its_document_has_none(payer: PayerScene) -> None:
    order = await _pay(payer)
    cancellation = Cancellation(reason="Ordered twice", with_refund=True)
    async with payer.database.transaction() as tx:
        by = TESTER.at(payer.clock())
        await cancel_by_id(tx, payer.scope, order.id, cancellation, settings=payer.settings, by=by)
    await payer.mails()
    page = (await payer.links())["See your order"]
    answer = await payer.open(f"{page}/invoice")
    assert (answer.status_code, "once it is issued" in answer.text) == (404, True)


async def test_documents_of_other_orders_are_not_found(payer: PayerScene) -> None:
    await _pay(payer)
    await payer.mails()
    first = (await payer.links())["See your order and its certificate"]
    payer.clock.now = payer.clock.now.replace(second=59)
    await _pay(payer)
    await payer.mails()
    second = (await payer.links())["See your order and its certificate"]
    assert first != second
    assert (await payer.open(f"{second}/documents/{INVOICE}")).status_code == 404
    assert (await payer.open(f"{first}/documents/{INVOICE}")).status_code == 200
    for path in ("/o/view_00000000000000000000000000/invoice", f"/o/x/documents/{INVOICE}"):
        assert (await payer.open(path)).status_code == 404
