"""A customer of an offset link who pays on the hosted page with a test card."""

import time
from html import unescape
from html.parser import HTMLParser
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx

from tonne_conformance.checks import Skip
from tonne_conformance.expect import Failed, expect, fail
from tonne_conformance.installation import POLL_S, TIMEOUT_S, WITHIN_S, Document, Service

TEST_CARD = "4242424242424242"
CONSENT = "withdrawal_consent"


class _Page(HTMLParser):
    """The form of a page, and its links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.action = attributes.get("action", "")
        elif tag == "a" and "href" in attributes:
            self.links.append(unescape(attributes["href"]))
        elif tag == "input" and "name" in attributes:
            is_choice = attributes.get("type") in {"radio", "checkbox"}
            if not is_choice or "checked" in attributes or attributes["name"] == CONSENT:
                self.fields[attributes["name"]] = attributes.get("value", "")


def create_link(service: Service) -> Document:
    return service.post("/offset-links", {"title": "Conformance"}).object()


def create_checkout(service: Service, link_id: str, **fields: object) -> Document:
    body = {"offset_link_id": link_id, "quantity": "1.5", "email": "conformance@example.com", **fields}
    answer = service.post("/checkouts", body)
    if answer.status == 400 and "redirect" in answer.shown:
        host = urlsplit(service.redirect_url).netloc
        raise Skip(
            f"The organisation does not allow redirects to {host}. Let its operator run "
            f"`tonne org allow-redirect ORGANISATION {host}`, or name another address with --redirect-url."
        )
    return answer.object()


def pay(checkout_url: str) -> None:
    """Fill in the payment form and submit it."""
    with httpx.Client(timeout=TIMEOUT_S) as browser:
        shown = browser.get(checkout_url)
        page = _Page(shown.text)
        if page.action is None:
            fail("a page with a payment form", f"HTTP {shown.status_code} {shown.text[:300]}")
        fields = page.fields | {"card_number": TEST_CARD}
        submitted = browser.post(urljoin(checkout_url, page.action), data=fields)
        expect(submitted.status_code in {302, 303}, "a redirect after the payment", f"HTTP {submitted.status_code}")


def temporary_id_after(checkout_url: str) -> str:
    """From the address of the button that leads back to the shop."""
    deadline = time.monotonic() + WITHIN_S
    with httpx.Client(timeout=TIMEOUT_S) as browser:
        while time.monotonic() < deadline:
            for link in _Page(browser.get(checkout_url).text).links:
                found = parse_qs(urlsplit(link).query).get("temporary_id")
                if found:
                    return found[0]
            time.sleep(POLL_S)
    raise Failed("a link with the parameter temporary_id on the page after the payment", "no such link")
