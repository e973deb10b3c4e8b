"""Verifying certificates in a browser."""

import base64
from dataclasses import dataclass

import pytest
from playwright.async_api import FilePayload, Page, expect

from tests.browser.checks import assert_accessible, assert_no_overflow, screenshot
from tests.browser.conftest import on_one_loop
from tests.browser.orders import complete_order
from tests.browser.visit import Visit
from tests.support.api_client import ApiClient
from tests.support.world import World
from tests.sustainability.certificates import HOSTILE, LONG, make_hostile, other_number, show_page
from tonne.app import Services

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
    await expect(page.get_by_role("heading", level=1)).to_have_text(f"Certificate {issued.number}")
    result = page.get_by_role("status")
    await expect(result).to_be_empty()
    await screenshot(page, "verify")
    await drop(page, "mine.pdf", pdf)
    await expect(result).to_contain_text("Genuine. “mine.pdf” is an unchanged copy of a PDF that we sent out")
    await screenshot(page, "verify-genuine")
    await drop(page, "mine.pdf", pdf.replace(b"%PDF-1", b"%PDF-2", 1))
    await expect(result).to_contain_text("Not genuine. We haven't sent out “mine.pdf” for this certificate")
    await screenshot(page, "verify-not-ours")
    await assert_accessible(page)
    await assert_no_overflow(page)


async def test_choosing_a_file_with_a_hostile_name(visit: Visit, issued: Issued) -> None:
    page = await visit(f"/verify/{issued.number}")
    chooser = page.get_by_label("Drop the PDF here or choose a file:")
    await chooser.focus()
    await expect(chooser).to_be_focused()
    name = "<img src=x onerror=alert(1)>.pdf"
    wrong = FilePayload(name=name, mimeType="application/pdf", buffer=b"%PDF-1.7 nothing")
    await chooser.set_input_files(wrong)
    await expect(page.get_by_role("status")).to_contain_text(f"We haven't sent out “{name}” for this certificate")
    empty = FilePayload(name="empty.pdf", mimeType="application/pdf", buffer=b"")
    await chooser.set_input_files(empty)
    await expect(page.get_by_role("status")).to_contain_text("“empty.pdf”")


async def test_a_pdf_that_is_sent_out_while_the_page_is_open_is_genuine(visit: Visit, issued: Issued) -> None:
    page = await visit(f"/verify/{issued.number}")
    await expect(page.get_by_text("We haven't sent out a PDF of this certificate yet.")).to_be_visible()
    await screenshot(page, "verify-no-document")
    await drop(page, "new.pdf", await issued.pdf())
    await expect(page.get_by_role("status")).to_contain_text("Genuine.")


async def test_the_file_is_not_uploaded(visit: Visit, issued: Issued) -> None:
    page = await visit(f"/verify/{issued.number}")
    sent: list[tuple[str, str, str | None]] = []
    page.on("request", lambda request: sent.append((request.method, request.url, request.post_data)))
    await drop(page, "secret.pdf", b"secret")
    await expect(page.get_by_role("status")).to_contain_text("Not genuine.")
    # The icon may be requested late.
    asked = [request for request in sent if "/assets/" not in request[1]]
    assert asked == [("GET", f"{visit.site}/verify/{issued.number}", None)]


async def test_a_file_dropped_outside_the_zone_does_not_replace_the_page(visit: Visit, issued: Issued) -> None:
    page = await visit(f"/verify/{issued.number}")
    prevented = await page.evaluate(
        "() => !document.body.dispatchEvent(new DragEvent('drop', {bubbles: true, cancelable: true}))"
    )
    assert prevented
    await expect(page.get_by_role("status")).to_be_empty()


async def test_without_https_the_page_explains_the_manual_check(visit: Visit, issued: Issued) -> None:
    page = await visit("/verify")
    await page.add_init_script("Object.defineProperty(window, 'crypto', {value: {}})")
    await page.goto(f"{visit.site}/verify/{issued.number}")
    await expect(page.get_by_text("Your browser can check files only on https pages.")).to_be_visible()
    await expect(page.locator("#drop")).to_be_hidden()
    await expect(page.get_by_label("SHA-256 hash of the file")).to_be_visible()


async def test_without_javascript_a_pasted_hash_is_checked(visit: Visit, issued: Issued) -> None:
    await issued.pdf()
    page = await visit("/verify", javascript=False)
    await page.get_by_label("Certificate number").fill(issued.number)
    await page.get_by_role("button", name="Verify").click()
    await expect(page.locator("#drop")).to_be_hidden()
    await expect(page.get_by_text("certutil -hashfile")).to_be_visible()
    await screenshot(page, "verify-without-javascript")
    sha256 = await page.locator("[data-sha256]").inner_text()
    for typed, verdict in ((sha256, "Genuine."), ("0" * 64, "Not genuine."), ("abc", "This isn't a SHA-256 hash.")):
        await page.get_by_label("SHA-256 hash of the file").fill(typed)
        await page.get_by_role("button", name="Check").click()
        await expect(page.get_by_role("status")).to_contain_text(verdict)


async def test_an_unknown_number_can_be_corrected(visit: Visit, issued: Issued) -> None:
    page = await visit(f"/verify/{other_number(issued.number)}")
    await expect(page.get_by_text("We haven't issued a certificate with this number.")).to_be_visible()
    await screenshot(page, "verify-unknown")
    await assert_accessible(page)
    await page.get_by_label("Certificate number").fill(issued.number)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text(f"Certificate {issued.number}")


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
    await expect(page.get_by_role("status")).to_contain_text("Genuine.")
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
