"""Verifying certificates in a browser."""

import asyncio
import base64
import hashlib
import re
import zlib
from dataclasses import dataclass

import pytest
from playwright.async_api import FilePayload, Page, expect

from tests.browser.checks import assert_accessible, assert_no_overflow, screenshot
from tests.browser.conftest import on_one_loop
from tests.browser.orders import complete_order
from tests.browser.visit import Visit
from tests.channels.public_pages.certificates import HOSTILE, LONG, make_hostile, other_number, show_page
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services

DROP = """async ({name, base64}) => {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const carried = new DataTransfer();
  carried.items.add(new File([bytes], name, {type: "application/pdf"}));
  const zone = document.getElementById("drop");
  for (const kind of ["dragenter", "dragover", "drop"])
    zone.dispatchEvent(new DragEvent(kind, {dataTransfer: carried, bubbles: true, cancelable: true}));
}"""


@dataclass
class Issued:
    number: str
    order_id: str
    api: ApiClient

    async def pdf(self) -> bytes:
        return (await self.api.get(f"/v1/orders/{self.order_id}/certificate")).content


@on_one_loop
async def issued(api: ApiClient) -> Issued:
    order = await complete_order(api)
    return Issued(order["public_certificate_url"].rpartition("/")[2], order["id"], api)


async def drop(page: Page, name: str, content: bytes) -> None:
    await page.evaluate(DROP, {"name": name, "base64": base64.b64encode(content).decode()})


async def test_entering_a_number_and_dropping_a_pdf(visit: Visit, issued: Issued) -> None:
    pdf = await issued.pdf()
    page = await visit("/verify")
    await screenshot(page, "verify-form")
    await assert_no_overflow(page)
    await assert_accessible(page)
    await page.get_by_label("Certificate number").fill(issued.number.lower().replace("-", " "))
    await page.get_by_role("button", name="Verify").click()
    await expect(page).to_have_url(f"{visit.site}/verify/{issued.number}")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Test certificate")
    await screenshot(page, "verify")
    # Without a number: the file says which certificate it is, also if it was changed.
    await page.goto(f"{visit.site}/verify")
    await drop(page, "mine.pdf", pdf)
    await expect(page.get_by_text("Your file is the unchanged original.")).to_be_visible()
    await expect(page).to_have_url(re.compile(f"/verify/{issued.number}[?]sha256=[0-9a-f]{{64}}$"))
    await screenshot(page, "verify-original")
    await page.goto(f"{visit.site}/verify")
    await drop(page, "mine.pdf", pdf.replace(b"%PDF-1", b"%PDF-2", 1))
    await expect(page.get_by_role("heading", level=1)).to_have_text("Altered file")
    await expect(page.get_by_text(f"the PDF that we issued for certificate {issued.number}")).to_be_visible()
    await screenshot(page, "verify-altered")
    await assert_accessible(page)
    await assert_no_overflow(page)


async def signed(issued: Issued) -> bytes:
    """The credential, once the log covers the certificate."""
    async with asyncio.timeout(60):
        while True:
            answer = await issued.api.get(f"/v1/orders/{issued.order_id}/credential.json")
            if "evidence" in answer.json():
                return answer.content
            await asyncio.sleep(0.2)


async def verdicts(page: Page) -> dict[str, str]:
    """What the browser says about each check."""
    await expect(page.get_by_role("heading", name="What your browser checked")).to_be_visible()
    lines = await page.locator("#check-lines li").all()
    return {
        await line.get_by_role("heading").inner_text(): await line.locator(".check-verdict").inner_text()
        for line in lines
    }


ALL_HOLD = {"Signed": "Holds", "Logged": "Holds", "Cosigned": "Not checked"}


async def test_the_browser_checks_credential_and_log(visit: Visit, issued: Issued) -> None:
    credential = await signed(issued)
    pdf = await issued.pdf()
    page = await visit("/verify")
    sent: list[tuple[str, str]] = []
    page.on("request", lambda request: sent.append((request.url, request.post_data or "")))
    await drop(page, "mine.pdf", pdf)
    assert await verdicts(page) == ALL_HOLD
    await expect(page.get_by_text("The certificate is in the test log")).to_be_visible()
    sha256 = hashlib.sha256(pdf).hexdigest()
    assert {(url.removeprefix(visit.site), body) for url, body in sent if "/assets/" not in url} == {
        ("/.well-known/tonne-issuer.json", ""),
        (f"/verify?sha256={sha256}&number={issued.number}", ""),
        (f"/verify/{issued.number}?sha256={sha256}", ""),
    }
    await screenshot(page, "verify-checks")
    await assert_no_overflow(page)
    await assert_accessible(page)
    await page.goto(f"{visit.site}/verify/{issued.number}")
    await expect(page.locator("#checks")).to_be_hidden()
    # The attached credential is genuine, the file around it is not.
    await drop(page, "mine.pdf", pdf.replace(b"%PDF-1", b"%PDF-2", 1))
    assert await verdicts(page) == {**ALL_HOLD, "Signed": "Does not hold", "Logged": "Not checked"}
    await page.goto(f"{visit.site}/verify")
    await drop(page, "credential.json", credential)
    assert await verdicts(page) == ALL_HOLD
    await drop(page, "credential.json", credential.replace(b"Ltd", b"Inc").replace(b"Beneficiary", b"Mallory"))
    await expect(page.get_by_text("was changed after it was signed")).to_be_visible()
    assert (await verdicts(page))["Signed"] == "Does not hold"
    await screenshot(page, "verify-checks-changed")
    await assert_accessible(page)


async def test_hostile_files_and_what_is_sent(visit: Visit, issued: Issued) -> None:
    page = await visit("/verify")
    chooser, problem = page.get_by_label("Choose the PDF of the certificate"), page.get_by_role("status")
    await chooser.focus()
    await expect(chooser).to_be_focused()
    for content, text in ((b"", "The file is empty."), (b"secret", "This file isn't a PDF.")):
        await chooser.set_input_files(FilePayload(name="<b>.pdf", mimeType="application/pdf", buffer=content))
        await expect(problem).to_contain_text(text)
    sent: list[tuple[str, str, str | None]] = []
    page.on("request", lambda request: sent.append((request.method, request.url, request.post_data)))
    many = b"%PDF-1.7\n" + b"1 0 obj stream\nsecret\nendstream\n" * 10_000
    packed = b"stream\n" + zlib.compress(f"/verify/{issued.number}".encode()) + b"\nendstream"
    await drop(page, "many.pdf", many)
    await expect(page.get_by_role("heading", level=1)).to_have_text("Unknown file")
    await assert_accessible(page)
    await drop(page, "packed.pdf", b"%PDF-1.7\n" + packed)
    await expect(page.get_by_role("heading", level=1)).to_have_text("Altered file")
    # The icon and the style sheet may be requested again.
    asked = [request for request in sent if "/assets/" not in request[1]]
    assert all(method == "GET" and body is None for method, _, body in asked), "only a hash and a number are sent"
    assert asked[0][1] == f"{visit.site}/verify?sha256={hashlib.sha256(many).hexdigest()}"


async def test_a_file_dropped_outside_the_zone_does_not_replace_the_page(visit: Visit, issued: Issued) -> None:
    page = await visit(f"/verify/{issued.number}")
    prevented = await page.evaluate(
        "() => !document.body.dispatchEvent(new DragEvent('drop', {bubbles: true, cancelable: true}))"
    )
    assert prevented
    await expect(page).to_have_url(f"{visit.site}/verify/{issued.number}")


async def test_without_javascript_or_https_the_form_uploads_the_file(visit: Visit, issued: Issued) -> None:
    pdf = FilePayload(name="mine.pdf", mimeType="application/pdf", buffer=await issued.pdf())
    page = await visit("/verify", javascript=False)
    await expect(page.get_by_text("The file is sent to us, compared and not stored.")).to_be_visible()
    await screenshot(page, "verify-without-javascript")
    await page.get_by_label("Choose the PDF of the certificate").set_input_files(pdf)
    await page.get_by_role("button", name="Verify the file").click()
    await expect(page.get_by_text("Your file is the unchanged original.")).to_be_visible()
    page = await visit("/verify")
    await page.add_init_script("Object.defineProperty(window, 'crypto', {value: {}})")
    await page.goto(f"{visit.site}/verify/{issued.number}")
    await drop(page, "mine.pdf", pdf["buffer"].replace(b"%PDF-1", b"%PDF-2", 1))
    await expect(page.get_by_role("heading", level=1)).to_have_text("Altered file")


async def test_an_unknown_number_can_be_corrected(visit: Visit, issued: Issued) -> None:
    page = await visit(f"/verify/{other_number(issued.number)}")
    await expect(page.get_by_text("We haven't issued a certificate with the number")).to_be_visible()
    await screenshot(page, "verify-unknown")
    await assert_accessible(page)
    await page.get_by_label("Certificate number").fill(issued.number)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Test certificate")


async def test_the_certificate_links_to_the_pdf_and_to_the_verification(
    visit: Visit, issued: Issued, services: Services, world: World
) -> None:
    await show_page(services, world.ours_test.scope)
    page = await visit(f"/certificates/{issued.number}")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Certificate of retirement")
    await expect(page.get_by_role("img", name="QR code of the verification link")).to_be_visible()
    await screenshot(page, "certificate")
    await assert_no_overflow(page)
    await assert_accessible(page)
    document = await page.request.get(f"{visit.site}/certificates/{issued.number}/document")
    assert (await document.body()).startswith(b"%PDF-")
    await page.get_by_role("link", name="Verify", exact=True).click()
    await expect(page).to_have_url(f"{visit.site}/verify/{issued.number}")
    await drop(page, "from-the-page.pdf", await document.body())
    await expect(page.get_by_text("Your file is the unchanged original.")).to_be_visible()
    await page.get_by_role("link", name="View the certificate").click()
    await expect(page).to_have_url(f"{visit.site}/certificates/{issued.number}")


@pytest.mark.parametrize("text", [HOSTILE, LONG, "مؤسسة الكربون 日本の森"], ids=["markup", "long", "letters"])
async def test_hostile_names_are_escaped_and_do_not_overflow(
    visit: Visit, issued: Issued, services: Services, world: World, text: str
) -> None:
    await show_page(services, world.ours_test.scope)
    await make_hostile(services, issued.number, text)
    for path in (f"/verify/{issued.number}", f"/certificates/{issued.number}"):
        page = await visit(path)
        await expect(page.get_by_text(text, exact=True).first).to_be_visible()
        assert await page.locator("main img, main iframe, main script").count() == 0
        await screenshot(page, f"hostile-{path.split('/')[1]}-{text[:1].encode().hex()}")
        await assert_no_overflow(page)
