"""The HTML version of mails: the same content as the text, in a safe design."""

import email
import email.policy
import re
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html as lxml_html
from msgspec import structs

from tonne.platform.documents.mail.layout import (
    Facts,
    LinkButton,
    Paragraph,
    Sums,
    button_lines,
    fact_lines,
    join_blocks,
    one_line,
    read_blocks,
    sum_lines,
)
from tonne.platform.documents.mail.send_mail import Attachment, compose_mail
from tonne.platform.settings.settings import Settings
from tonne.platform.web.wording import wording_in

SETTINGS = Settings(public_url="https://offsets.example.com", seller_name="Offsets & Co <Ltd>")
TEXT = (
    "Hello Fjord Bakery AS,\n\nPlease pay by bank transfer:\n\n"
    "  IBAN            DE89 3704\n  Amount          12.00 EUR\n\n"
    "Open your order:\nhttps://offsets.example.com/o/ord_1\n\nThank you.\n"
)


def html_of(message: EmailMessage) -> str:
    parsed = email.message_from_bytes(message.as_bytes(), policy=email.policy.default)
    body = parsed.get_body(("html",))
    assert body is not None
    return str(body.get_content())


def compose(text: str = TEXT, subject: str = "Subject", **options: object) -> EmailMessage:
    return compose_mail(SETTINGS, ["ada@ours.test"], subject, text, **options)  # type: ignore[arg-type]


def test_the_text_is_divided_into_paragraphs_facts_and_buttons() -> None:
    assert read_blocks(TEXT, SETTINGS.base_url) == [
        Paragraph(["Hello Fjord Bakery AS,"]),
        Paragraph(["Please pay by bank transfer:"]),
        Facts([("IBAN", "DE89 3704"), ("Amount", "12.00 EUR")]),
        LinkButton("Open your order", "https://offsets.example.com/o/ord_1"),
        Paragraph(["Thank you."]),
    ]


@pytest.mark.parametrize(
    "url", ["https://elsewhere.test/o/1", "https://offsets.example.com.evil.test/", "javascript:0"]
)
def test_only_our_own_urls_become_links(url: str) -> None:
    [block] = read_blocks(f"Open it:\n{url}\n", SETTINGS.base_url)
    assert isinstance(block, Paragraph)
    assert "<a " not in html_of(compose(f"Open it:\n{url}\n"))


def test_facts_are_aligned_and_read_back() -> None:
    facts = [("Order", "ord_1"), ("Amount due", "1 EUR"), ("Empty", "")]
    assert fact_lines(facts[:2]) == "  Order       ord_1\n  Amount due  1 EUR\n"
    assert read_blocks(fact_lines(facts), "https://x.test") == [Facts(facts)]


def test_a_mail_loads_nothing_from_other_hosts_and_runs_nothing() -> None:
    html = html_of(
        compose(subject="A subject", is_test=True, notice="This is a test.", closing="Offsets\nQuestions?\n")
    )
    assert not re.search(r"<(img|script|link|iframe|object|form)\b|url\(|@import", html)
    assert set(re.findall(r"https?://[^\s\"'<]+", html)) == {"https://offsets.example.com/o/ord_1"}
    tree = lxml_html.document_fromstring(html)
    assert tree.get("lang") == "en"
    assert [each.text for each in tree.iter("h1")] == ["A subject"]
    assert [each.get("content") for each in tree.iter("meta") if each.get("name") == "color-scheme"] == ["light dark"]
    assert all(table.get("role") == "presentation" for table in tree.iter("table"))


def test_the_preview_is_the_first_sentence_after_the_greeting() -> None:
    tree = lxml_html.document_fromstring(html_of(compose()))
    [hidden] = tree.iter("div")
    assert "display:none" in (hidden.get("style") or "")
    assert hidden.text == "Please pay by bank transfer: Thank you."


def test_the_attachment_comes_after_both_versions() -> None:
    message = compose_mail(SETTINGS, ["ada@ours.test"], "S", TEXT, attachments=[Attachment("a.pdf", b"%PDF-")])
    assert [part.get_content_type() for part in message.walk()] == [
        *("multipart/mixed", "multipart/alternative", "text/plain", "text/html"),
        "application/pdf",
    ]


@given(st.text(max_size=60))
def test_a_name_adds_no_block_and_no_markup(name: str) -> None:
    text = f"Hello {one_line(name)},\n\nYour order is paid.\n\n{fact_lines([('Name', name)])}"
    blocks = read_blocks(text, SETTINGS.base_url)
    assert [type(block) for block in blocks] == [Paragraph, Paragraph, Facts]
    plain = lxml_html.document_fromstring(html_of(compose("Hello Ann,\n\nYour order is paid.\n\n  Name  Ann\n")))
    hostile = lxml_html.document_fromstring(html_of(compose(text)))
    assert [each.tag for each in hostile.iter()] == [each.tag for each in plain.iter()]


def test_amounts_and_their_sums_are_read_back() -> None:
    rows, totals = [("Forest mix, 1.5 t", "€17.03"), ("Service fee", "€1.89")], [("Paid", "€18.92")]
    text = sum_lines(rows, totals)
    assert text.splitlines()[-2:] == ["  -------------------------", "  Paid               €18.92"]
    assert read_blocks(text, "https://x.test") == [Sums(rows, totals)]
    html = lxml_html.document_fromstring(html_of(compose(text)))
    assert [cell.text for cell in html.iter("td") if cell.get("align") == "right"] == ["€17.03", "€1.89", "€18.92"]


def test_a_mail_names_the_merchant_its_language_and_the_legal_pages() -> None:
    settings = structs.replace(SETTINGS, terms_url="https://legal.test/terms", imprint_url="https://legal.test/imprint")
    text = join_blocks(["Danke.", button_lines("Bestellung", "https://offsets.example.com/o/1"), ""])
    text += "\n" + button_lines("Beleg", "https://offsets.example.com/o/1/receipt")
    mail = compose_mail(
        settings, ["ada@ours.test"], "Ihr Beleg", text, wording=wording_in("de"), merchant="Hotel Miramar", is_test=True
    )
    assert (mail["Content-Language"], mail["Subject"]) == ("de", "[TEST] Ihr Beleg")
    tree = lxml_html.document_fromstring(html_of(mail))
    assert tree.get("lang") == "de"
    links = [(link.get("class"), link.get("href")) for link in tree.iter("a")]
    assert links == [
        ("button", "https://offsets.example.com/o/1"),
        ("button quiet", "https://offsets.example.com/o/1/receipt"),
        ("plain-link", "https://legal.test/terms"),
        ("plain-link", "https://legal.test/imprint"),
    ]
    assert "Hotel Miramar" in html_of(mail)
    body = mail.get_body(("plain",))
    assert body is not None
    assert "https://legal.test/terms" in body.get_content()
