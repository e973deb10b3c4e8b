"""Verifying certificates."""

import asyncio
import hashlib
import re
import zlib
from collections.abc import AsyncIterator
from html import unescape

import httpx
import msgspec
import pytest

from tests.channels.public_pages.certificates import (
    HOSTILE,
    complete_live_order,
    complete_order,
    make_hostile,
    other_number,
    record_of,
    show_page,
)
from tests.support.api_client import ApiClient
from tests.support.certificates import RECORD
from tests.support.world import World
from tonne.apps.wiring.app import Services, build_app
from tonne.channels.public_pages.certificates.verdict import CertificateVerdict, FileMatch, verdict_on
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, Scope
from tonne.supply.certificates.record import CertificateState
from tonne.supply.certificates.store import StoredCertificate, new_number, normal_number

UNKNOWN = "We haven't issued a certificate with the number"
HEADINGS = {
    CertificateVerdict.VALID: f"Issued by <bdi>{RECORD.issuer}</bdi>",
    CertificateVerdict.TEST: "Test certificate",
    CertificateVerdict.REPLACED: "Replaced certificate",
    CertificateVerdict.WITHDRAWN: "Withdrawn certificate",
    CertificateVerdict.ALTERED: "Altered file",
    CertificateVerdict.UNKNOWN_NUMBER: "Unknown certificate",
    CertificateVerdict.UNKNOWN_FILE: "Unknown file",
}


@pytest.fixture
async def number(api: ApiClient, services: Services) -> str:
    return await complete_order(api, services)


async def pdf_of(api: ApiClient) -> bytes:
    [order] = (await api.get("/v1/orders")).json()["data"]
    return (await api.get(f"/v1/orders/{order['id']}/certificate")).content


def hashes(page: httpx.Response) -> list[str]:
    return re.findall('data-sha256="([^"]*)"', page.text)


def verdict(page: httpx.Response) -> CertificateVerdict:
    """That of the heading, which has a class and an icon of its own."""
    [heading] = re.findall('<h1 id="verdict">(.*?)</h1>', page.text)
    [found] = [each for each, text in HEADINGS.items() if text == heading]
    [tone] = re.findall('class="verdict ([a-z]+)"', page.text)
    assert found.startswith(tone)
    return found


async def follow(browser: httpx.AsyncClient, answer: httpx.Response) -> httpx.Response:
    while answer.status_code == 303:
        answer = await browser.get(answer.headers["location"])
    return answer


async def upload(browser: httpx.AsyncClient, content: bytes, name: str = "mine.pdf") -> httpx.Response:
    """As the form does without JavaScript."""
    return await follow(browser, await browser.post("/verify", files={"file": (name, content, "application/pdf")}))


async def test_the_form_asks_for_a_number(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/verify")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert '<form action="/verify" method="get">' in answer.text
    assert 'name="number"' in answer.text
    assert 'id="fault"' not in answer.text


def spellings(number: str) -> list[str]:
    return [
        number,
        number.lower(),
        number.replace("-", ""),
        number.replace("-", " "),
        f"  {number}\t",
        number.replace("-", "–"),
        number.replace("0", "O").replace("1", "I"),
        number.replace("0", "o").replace("1", "l"),
        "".join(f"{letter} " for letter in number),
    ]


def test_a_number_is_normalised() -> None:
    for mode in Mode:
        for _ in range(200):
            number = new_number(mode)
            assert {normal_number(text) for text in spellings(number)} == {number}


def test_an_invalid_number_is_not_normalised() -> None:
    good = "7K2M-04QX-9ZTB-C3RD"
    assert normal_number(good) == good
    assert normal_number(f"TEST-{good}") == f"TEST-{good}"
    assert normal_number("TEST-04QX-9ZTB-C3RD") == "TEST-04QX-9ZTB-C3RD", "a live one may begin like that too"
    for text in ("", "-", good[:-1], f"{good}0", f"LIVE-{good}", f"{good}\x00", "٠" * 16, "*" * 16, " " * 1000 + good):
        assert normal_number(text) == "", text


async def test_a_number_redirects_to_its_result(browser: httpx.AsyncClient, number: str) -> None:
    for typed in spellings(number):
        answer = await browser.get("/verify", params={"number": typed})
        assert (answer.status_code, answer.headers["location"]) == (303, f"/verify/{number}"), typed
        assert (await browser.get(f"/verify/{typed.strip()}")).status_code == 200, (
            "and so does an address typed by hand"
        )


@pytest.mark.parametrize(
    "typed", ["", "   ", "---", "//evil.example", "/../..", "日本", "\r\nSet-Cookie: a=b", "x" * 5000]
)
async def test_other_input_never_redirects_elsewhere(browser: httpx.AsyncClient, typed: str) -> None:
    answer = await browser.get("/verify", params={"number": typed})
    if answer.status_code == 303:
        assert re.fullmatch(r"/verify/[A-Za-z0-9-]{1,60}", answer.headers["location"])
        assert "set-cookie" not in answer.headers
    else:
        assert answer.status_code == 400
        assert "Enter the number" in answer.text


async def test_the_page_shows_the_whole_record(browser: httpx.AsyncClient, services: Services, number: str) -> None:
    answer = await browser.get(f"/verify/{number}")
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    text, record = unescape(answer.text), await record_of(services, number)
    facts = [record.number, record.beneficiary, record.issuer, record.order_id, "1.5\u00a0t"]
    for line in record.lines:
        facts += [line.project_name, line.registry, line.project_id, line.country, line.project_type]
        facts += [line.methodology or "", line.vintage, line.serial_range, f"{line.quantity}\u00a0t"]
        if line.shared:
            facts.append(f"{line.shared.share}\u00a0t of one shared unit of {line.shared.unit_quantity}\u00a0t")
    assert any(line.shared for line in record.lines)
    for fact in facts:
        assert fact in text
    assert verdict(answer) is CertificateVerdict.TEST
    assert "This certificate was issued in test mode. No credits were retired." in text
    assert len(answer.content) < 50_000


async def test_it_links_to_the_certificate_only_if_it_is_public(
    browser: httpx.AsyncClient, services: Services, world: World, number: str
) -> None:
    assert "/certificates/" not in (await browser.get(f"/verify/{number}")).text
    await show_page(services, world.ours_test.scope)
    assert f'href="/certificates/{number}"' in (await browser.get(f"/verify/{number}")).text


async def test_every_pdf_that_was_sent_out_is_listed(
    browser: httpx.AsyncClient, api: ApiClient, services: Services, number: str
) -> None:
    before = await browser.get(f"/verify/{number}")
    assert "None yet. A PDF is made when it is first downloaded or mailed" in before.text
    assert hashes(before) == []
    digest = hashlib.sha256(await pdf_of(api)).hexdigest()
    assert hashes(await browser.get(f"/verify/{number}")) == [digest]
    older = hashlib.sha256(b"drawn by an earlier release").digest()
    async with services.database.transaction() as tx:
        await tx.execute("INSERT INTO certificate_documents VALUES ($1, $2, '2020-01-01')", number, older)
    assert hashes(await browser.get(f"/verify/{number}")) == [older.hex(), digest], "both are genuine"


async def test_a_pasted_hash_is_checked_without_javascript(
    browser: httpx.AsyncClient, api: ApiClient, number: str
) -> None:
    pdf = await pdf_of(api)
    digest, wrong = hashlib.sha256(pdf).hexdigest(), hashlib.sha256(pdf + b"\n").hexdigest()
    # As certutil and people write it.
    pairs = " ".join(digest[start : start + 2] for start in range(0, 64, 2))
    for text in (digest, digest.upper(), f"  {digest}\n", pairs, pairs.replace(" ", ":")):
        answer = await browser.get(f"/verify/{number}", params={"sha256": text})
        assert verdict(answer) is CertificateVerdict.TEST, text
        assert "Your file is the unchanged original." in answer.text
    assert verdict(await browser.get(f"/verify/{number}", params={"sha256": wrong})) is CertificateVerdict.ALTERED
    for text in (digest[:-1], f"{digest}0", "", HOSTILE):
        answer = await browser.get(f"/verify/{number}", params={"sha256": text})
        assert "This isn't a SHA-256 hash." in unescape(answer.text), text
        assert "unchanged original" not in answer.text
        assert "<img" not in answer.text.replace('<img src="/assets', "")
    twice = await browser.get(f"/verify/{number}?sha256={digest}&sha256={wrong}")
    assert (twice.status_code, twice.headers["content-type"]) == (400, "text/html; charset=utf-8")


async def test_a_file_finds_its_certificate(
    browser: httpx.AsyncClient, api: ApiClient, services: Services, number: str
) -> None:
    """By the hash alone, or by the number in it if it was changed."""
    pdf = await pdf_of(api)
    second = await complete_order(api, services, "2")
    found = await upload(browser, pdf)
    assert verdict(found) is CertificateVerdict.TEST
    assert (found.url.path, "unchanged original" in found.text) == (f"/verify/{number}", True)
    changed = await upload(browser, pdf.replace(b"%PDF-1", b"%PDF-2", 1))
    assert (changed.url.path, verdict(changed)) == (f"/verify/{number}", CertificateVerdict.ALTERED)
    # As a program that saves it again packs it.
    packed = b"%PDF-1.7 stream\n" + zlib.compress(f"/verify/{number}".encode("utf-16-be")) + b"\nendstream"
    assert verdict(await upload(browser, packed)) is CertificateVerdict.ALTERED
    foreign = await upload(browser, b"%PDF-1.7 7K2M-04QX-9ZTB-C3RD")
    assert (foreign.status_code, verdict(foreign)) == (404, CertificateVerdict.UNKNOWN_FILE)
    assert "7K2M-04QX-9ZTB-C3RD" in foreign.text
    assert verdict(await upload(browser, b"%PDF-1.7 nothing")) is CertificateVerdict.UNKNOWN_FILE
    digest = hashlib.sha256(pdf).hexdigest()
    other = await follow(browser, await browser.get(f"/verify/{second}", params={"sha256": digest}))
    assert other.url.path == f"/verify/{number}"
    assert f'You asked about certificate <b class="number">{second}</b>' in other.text


async def test_a_file_of_a_certificate_without_a_pdf_is_not_from_us(browser: httpx.AsyncClient, number: str) -> None:
    answer = await upload(browser, f"%PDF-1.7 {number}".encode())
    assert verdict(answer) is CertificateVerdict.ALTERED
    assert "nobody has received a PDF of certificate" in answer.text


async def test_hostile_files_are_refused_or_unknown(browser: httpx.AsyncClient) -> None:
    for content, text in ((b"", "The file is empty"), (b"GIF89a" * 99, "This file isn't a PDF")):
        answer = await browser.post("/verify", files={"file": ("<b>.pdf", content, "application/pdf")})
        assert answer.status_code == 400
        assert text in unescape(answer.text)
    bomb = zlib.compress(b"7K2M-04QX-9ZTB-C3R" * 1_000_000)
    many = b"%PDF-1.7\n" + b"1 0 obj stream\nx\nendstream\n" * 10_000
    for content in (many, b"%PDF-1.7 " + (b"stream\n" + bomb) * 50):
        assert verdict(await upload(browser, content)) is CertificateVerdict.UNKNOWN_FILE
    large = await browser.post("/verify", files={"file": ("a.pdf", b"%PDF-" + bytes(50_000_000), "application/pdf")})
    assert (large.status_code, large.headers["content-type"]) == (413, "text/html; charset=utf-8")
    none = await browser.post("/verify", data={"number": "x"})
    assert (none.status_code, "no file was chosen" in none.text) == (400, True)


async def test_an_original_is_not_said_to_be_more_than_unchanged(
    browser: httpx.AsyncClient, services: Services, world: World
) -> None:
    """`tonne-verify` does not check the status of a file."""
    number = await complete_live_order(services, world)
    pdf = await services.render_certificate.render(await record_of(services, number))
    answer = await upload(browser, pdf)
    assert '<h1 id="verdict">Issued by' in answer.text
    assert "Your file is the unchanged original." in answer.text
    assert "valid today" not in answer.text


@pytest.mark.parametrize(
    ("mode", "state", "match", "expected"),
    [
        (Mode.LIVE, CertificateState.VALID, None, CertificateVerdict.VALID),
        (Mode.LIVE, CertificateState.VALID, FileMatch.ORIGINAL, CertificateVerdict.VALID),
        (Mode.LIVE, CertificateState.VALID, FileMatch.ALTERED, CertificateVerdict.ALTERED),
        (Mode.TEST, CertificateState.VALID, FileMatch.ORIGINAL, CertificateVerdict.TEST),
        (Mode.TEST, CertificateState.WITHDRAWN, None, CertificateVerdict.WITHDRAWN),
        (Mode.LIVE, CertificateState.REPLACED, FileMatch.ORIGINAL, CertificateVerdict.REPLACED),
        (Mode.LIVE, CertificateState.REPLACED, FileMatch.ALTERED, CertificateVerdict.ALTERED),
    ],
)
def test_verdicts(mode: Mode, state: CertificateState, match: FileMatch | None, expected: CertificateVerdict) -> None:
    record = msgspec.structs.replace(RECORD, mode=mode)
    certificate = StoredCertificate(Scope("org", "acc", mode), record, state, None, None, None, is_public=True)
    assert verdict_on(certificate, match) is expected


async def test_unknown_and_malformed_numbers_get_the_same_answer(browser: httpx.AsyncClient, number: str) -> None:
    seen = set()
    for typed in (other_number(number), new_number(Mode.LIVE), "zzyzx", "qq-xyzzy", number[:-1]):
        answer = await browser.get(f"/verify/{typed}")
        assert answer.status_code == 404
        assert UNKNOWN in answer.text
        assert f'value="{typed}"' in answer.text, "so that it can be corrected"
        # The links to other languages contain the address.
        text = re.sub("<nav.*</nav>", "", answer.text, flags=re.DOTALL).replace(typed, "")
        seen.add((text, answer.headers["content-type"], answer.headers["cache-control"]))
    assert len(seen) == 1
    for typed in ("%00", "%FF", "%F0%9F%8C%B3", "%3Cscript%3Ealert(1)%3C/script%3E"[:30]):
        answer = await browser.get(f"/verify/{typed}")
        assert answer.status_code == 404
        assert "<script>" not in answer.text


async def test_hostile_names_are_escaped(browser: httpx.AsyncClient, services: Services, number: str) -> None:
    await make_hostile(services, number)
    answer = await browser.get(f"/verify/{number}")
    assert re.findall("<script[^>]*>", answer.text) == re.findall(
        '<script src="/assets/(?:verify|copy).js[^>]*" defer>', answer.text
    )
    assert "<img src=x" not in answer.text
    assert "javascript:" not in answer.text
    assert unescape(answer.text).count(HOSTILE) >= 2 + 2 * 7


async def test_the_page_loads_nothing_from_other_sites(browser: httpx.AsyncClient, number: str) -> None:
    answer = await browser.get(f"/verify/{number}")
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert re.findall(r'(?:src|action)="(?!/)', answer.text) == []
    assert re.findall(r"\son\w+=|\sstyle=|<style", answer.text) == []


@pytest.fixture
async def strict(services: Services, settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a service whose rate limit does not refill."""
    strict = Services(services.database, msgspec.structs.replace(settings, verify_per_minute=0.001))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(build_app(strict)), base_url="http://tonne.test"
    ) as client:
        yield client


async def test_lookups_are_rate_limited_with_retry_after(
    strict: httpx.AsyncClient, number: str, settings: Settings
) -> None:
    numbers = [new_number(Mode.TEST) for _ in range(settings.verify_burst + 100)]
    answers = await asyncio.gather(*(strict.get(f"/verify/{typed}") for typed in numbers))
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) == 100
    assert {answer.status_code for answer in answers} == {404, 429}
    for answer in [*refused, await strict.get(f"/verify/{number}")]:
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert 1 <= int(answer.headers["retry-after"]) <= 60_000
        assert "Too many requests" in answer.text


async def test_the_rate_limit_is_per_network_address(services: Services, number: str, settings: Settings) -> None:
    app = build_app(
        Services(services.database, msgspec.structs.replace(settings, verify_per_minute=0.001, verify_burst=1))
    )
    statuses = []
    for address in ("192.0.2.1", "192.0.2.1", "192.0.2.2"):
        transport = httpx.ASGITransport(app, client=(address, 1234))
        async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as client:
            statuses.append((await client.get(f"/verify/{number}")).status_code)
    assert statuses == [200, 429, 200]


async def test_known_numbers_and_hashes_count_towards_the_limit(
    strict: httpx.AsyncClient, number: str, settings: Settings
) -> None:
    """Otherwise guesses could be mixed with valid numbers."""
    tries = [f"/verify/{number}", f"/verify/{number}?sha256={'0' * 64}"] * settings.verify_burst
    statuses = [(await strict.get(path)).status_code for path in tries]
    assert statuses == [200] * settings.verify_burst + [429] * settings.verify_burst
    assert (await strict.get("/verify")).status_code == 200, "the form looks nothing up"
