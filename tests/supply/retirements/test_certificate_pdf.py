"""The PDF of a certificate, as rendered."""

import asyncio
import hashlib
import io
import re
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pypdf
import pytest
import segno
from PIL import Image

from tests.support.certificates import LINE, RECORD
from tests.support.pdf_pages import Dots, extent, fonts, lacks_signs, links, outside, page_texts, squeezed
from tonne.platform.documents.pdf import PdfFailed, render_pdf
from tonne.supply.certificates.pdf import certificate_pdf
from tonne.supply.certificates.record import CertificateRecord, Replacement
from tonne.supply.stock.credit_facts import CreditFacts, StatedNumber, StatedText
from tonne.supply.stock.lots.lot_facts import CreditLabel

FRAME_MM = 10.2
NAMES = {
    "Latin": "Công ty Łódź Ðørn Ğüneş & Straße AG",
    "Greek": "Ελληνική Ναυτιλιακή Εταιρεία «Ωκεανός» Α.Ε.",
    "Cyrillic": "Общество «Северный лес» Київ",
    "Simplified Chinese": "上海远景能源科技有限公司",
    "Traditional Chinese": "臺灣綠能發展股份有限公司",
    "Japanese": "株式会社グリーンかぜ発電",
    "Korean": "한국환경산업기술원 주식회사",
    "Arabic": "شركة الطاقة النظيفة للتجارة",
    "Hebrew": "חברת האנרגיה הירוקה",
    "Thai": "บริษัทพลังงานสะอาด",
    "Devanagari": "हरित ऊर्जा लिमिटेड",
}
MARKUP = [
    "#panic() #import sys #eval(1)",
    "*bold* _slanted_ `code` = Heading",
    "$x^2$ \\ backslash \\u{41} <label> @ref [content]",
    "// a comment /* another */ after",
    "'single' \"double\" -- --- ... ~ 1/2",
    "<script>alert(1)</script> {{ braces }} %s ${x}",
]


def changed(**changes: Any) -> CertificateRecord:
    return msgspec.structs.replace(RECORD, **changes)


def sixty(mode: str) -> CertificateRecord:
    lines = [msgspec.structs.replace(LINE, serial_range=f"VCS1340-2019 {n * 10}–{n * 10 + 9}.") for n in range(60)]
    return changed(mode=mode, lines=lines)


def test_removal_durability_and_labels_are_printed_if_they_are_known() -> None:
    facts = CreditFacts(
        mechanism=StatedText("removal"),
        durability_years=StatedNumber(1000),
        labels=[CreditLabel("icvcm_ccp", "Registry", "2026-02-03")],
    )
    known = certificate_pdf(changed(lines=[msgspec.structs.replace(LINE, facts=facts)]))
    assert "Removal · 1000 years · ICVCM CCP" in page_texts(known)[0]
    assert "Removal" not in page_texts(certificate_pdf(RECORD))[0]


def test_it_states_everything_that_the_record_says() -> None:
    pages = page_texts(certificate_pdf(RECORD))
    assert len(pages) == 1
    text = " ".join(pages[0].split())
    assert "1234567.105697 tonnes of CO₂ equivalent were retired on behalf of Marlowe & Finch Shipping Ltd" in text
    for said in (
        *("C-00000123", "ord_01JCQ4W9T6X2M8", "15 November 2026", "Example Offsets Ltd"),
        *("Verra VCS1340", "Bale Mountains Eco-region REDD+ project", "Forest conservation · Ethiopia · VM0015"),
        *("2019", "VCS1340-2019 17–18", "9 November 2026", "1.105697"),
        "Includes 0.105697 t of one shared unit of 1 t.",
        "A shared unit was retired on behalf of several beneficiaries.",
    ):
        assert said in text
    assert LINE.retirement_url
    assert squeezed(LINE.retirement_url) in squeezed(text)
    assert squeezed(RECORD.verification_url) in squeezed(text)
    assert "neutral" not in text.lower()


def test_what_is_not_known_leaves_no_trace() -> None:
    bare = msgspec.structs.replace(LINE, methodology=None, retirement_url=None, shared=None)
    text = page_texts(certificate_pdf(changed(lines=[bare])))[0]
    assert "Forest conservation · Ethiopia" in text
    assert not re.search("none|null|shared", text, re.IGNORECASE)


def test_both_links_can_be_clicked_and_nothing_but_the_web_is_a_link() -> None:
    assert links(certificate_pdf(RECORD)) == {RECORD.verification_url, LINE.retirement_url}
    odd = msgspec.structs.replace(LINE, retirement_url="javascript:alert(1)")
    pdf = certificate_pdf(changed(lines=[odd]))
    assert links(pdf) == {RECORD.verification_url}
    assert "javascript:alert(1)" in page_texts(pdf)[0]


def test_the_code_on_the_page_is_that_of_the_verification_link() -> None:
    dots = Dots(certificate_pdf(RECORD))
    rows = segno.make_qr(RECORD.verification_url, error="m", boost_error=False).matrix
    # Where the template puts it: 25 mm wide, in the lower right corner of the text.
    left_mm, top_mm, module_mm = 297 - 24 - 25, 210 - 21 - 25, 25 / len(rows)
    drawn = [
        [int(dots.is_dark(left_mm + (x + 0.5) * module_mm, top_mm + (y + 0.5) * module_mm)) for x in range(len(rows))]
        for y in range(len(rows))
    ]
    assert drawn == [list(row) for row in rows]


def test_the_file_names_its_title_author_and_date(tmp_path: Path) -> None:
    path = tmp_path / "certificate.pdf"
    path.write_bytes(certificate_pdf(RECORD))
    about = pypdf.PdfReader(path).metadata
    assert about is not None
    assert about.title == "Certificate of retirement C-00000123"
    assert about.author == "Example Offsets Ltd"
    assert str(about.creation_date) == "2026-11-15 10:00:00+00:00"


def test_the_same_record_gives_the_same_bytes_in_any_process() -> None:
    record = changed(beneficiary="株式会社 شركة Ωκεανός")
    here = certificate_pdf(record)
    assert certificate_pdf(record) == here
    script = (
        "import sys, hashlib, msgspec\n"
        "from tonne.supply.certificates.pdf import certificate_pdf\n"
        "from tonne.supply.certificates.record import CertificateRecord, Replacement\n"
        "record = msgspec.json.decode(sys.stdin.buffer.read(), type=CertificateRecord)\n"
        "print(hashlib.sha256(certificate_pdf(record)).hexdigest())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], input=msgspec.json.encode(record), capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == hashlib.sha256(here).hexdigest()
    assert certificate_pdf(changed(beneficiary="Someone else")) != here


async def test_threads_take_turns() -> None:
    records = [changed(number=f"C-{number}") for number in range(12)]
    together = await asyncio.gather(*(asyncio.to_thread(certificate_pdf, record) for record in records))
    assert together == [certificate_pdf(record) for record in records]


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_a_name_in_any_script_is_shown_whole(name: str) -> None:
    line = msgspec.structs.replace(LINE, project_name=name, country=name)
    pdf = certificate_pdf(changed(beneficiary=name, issuer=name, lines=[line]))
    assert not lacks_signs(pdf)
    # As beneficiary, issuer (twice), project and country. In what order it reads a mixed line is up to the program.
    assert _letters(page_texts(pdf)[0]) == _letters(name * 5)
    assert squeezed(name) in squeezed(page_texts(pdf)[0])
    assert list(outside(pdf, FRAME_MM)) == []
    carried = fonts(pdf)
    assert all(carried.values())
    assert {font.split("-")[0].rstrip("0123456789") for font in carried} <= {
        *("EBGaramond", "Inter", "NotoSansCJKsc", "NotoSansCJKjp", "NotoNaskhArabic"),
        *("NotoSansHebrew", "NotoSansThai", "NotoSansDevanagari"),
    }


def _letters(text: str) -> Counter[str]:
    return Counter(sign for sign in text if sign.isalpha() and not sign.isascii())


def test_a_sign_that_no_font_has_would_be_noticed() -> None:
    """What the test above relies on."""
    assert lacks_signs(certificate_pdf(changed(beneficiary="Rune ᚠ")))


@pytest.mark.parametrize(
    ("name", "japanese"),
    [("株式会社三井住友銀行", True), ("とうきょう直角", True), ("上海直角有限公司", False), ("直角", False)],
)
def test_japanese_names_get_japanese_forms(name: str, japanese: bool) -> None:
    assert ("NotoSansCJKjp-Regular" in fonts(certificate_pdf(changed(beneficiary=name)))) is japanese


def test_arabic_letters_are_joined() -> None:
    """Alone and in a word a letter has different forms, so the word is narrower than its letters side by side."""
    joined, parted = "بيبيبيبي", "ب ي ب ي ب ي ب ي".replace(" ", "\u200c")
    assert _width(joined) < 0.8 * _width(parted)


def _width(name: str) -> float:
    left, right = extent(certificate_pdf(changed(beneficiary=name)), "بي")
    return right - left


def test_an_arabic_name_runs_from_right_to_left_with_foreign_words_in_it() -> None:
    pdf = certificate_pdf(changed(beneficiary="شركة ЖЖЖ"))
    assert extent(pdf, "شركة")[0] > extent(pdf, "Ж")[1]
    pdf = certificate_pdf(changed(beneficiary="ЖЖЖ شركة"))
    assert extent(pdf, "شركة")[0] > extent(pdf, "Ж")[1]


def test_arabic_in_a_row_of_facts_leaves_their_order_alone() -> None:
    line = msgspec.structs.replace(LINE, project_type="ببب", country="ששש", methodology="ЖЖЖ")
    pdf = certificate_pdf(changed(lines=[line]))
    assert extent(pdf, "ب")[1] < extent(pdf, "ש")[0] < extent(pdf, "Ж")[0]


@pytest.mark.parametrize("hostile", MARKUP)
def test_markup_in_a_name_is_only_text(hostile: str) -> None:
    line = msgspec.structs.replace(LINE, project_name=hostile, country=hostile, serial_range=hostile, vintage=hostile)
    text = squeezed(page_texts(certificate_pdf(changed(beneficiary=hostile, issuer=hostile, lines=[line])))[0])
    assert text.count(squeezed(hostile)) >= 6


def test_every_text_of_the_record_may_be_hostile() -> None:
    hostile = '#panic() *b* $x$ \\ <l> @r "'
    texts = (
        "registry",
        "project_id",
        "project_name",
        "country",
        "project_type",
        "methodology",
        "vintage",
        "serial_range",
    )
    line = msgspec.structs.replace(LINE, **dict.fromkeys(texts, hostile), retirement_url=hostile)
    pdf = certificate_pdf(
        changed(number=hostile, order_id=hostile, verification_url=f"https://x/{hostile}", lines=[line])
    )
    assert squeezed("".join(page_texts(pdf))).count(squeezed(hostile)) >= 11


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("ab\x00c\x1b[31m\x7fd\r\ne\tf", "ab c [31m d e f"),
        ("safe\u202egnp.exe\u202c end", "safegnp.exe end"),
        ("\u2067turned\u2069 \u2066x\u2069", "turned x"),
        ("line\u2028end\u2029of\u0085text", "line end of text"),
        ("non\u00a0breaking " * 3, "non breaking non breaking non breaking"),
        ("half \ud800 a pair", "half \ufffd a pair"),
        ("", ""),
    ],
)
def test_signs_that_hide_or_turn_text_do_nothing(name: str, shown: str) -> None:
    text = " ".join(page_texts(certificate_pdf(changed(beneficiary=name)))[0].split())
    between = text.partition("retired on behalf of")[2].partition("The credits are marked")[0]
    assert squeezed(between) == squeezed(shown)


def test_a_tower_of_marks_stays_on_its_line() -> None:
    for name in ("e" + "\u0301" * 400, "ab" + "\u0315\u0338" * 200):
        assert list(outside(certificate_pdf(changed(beneficiary=name)), FRAME_MM)) == []


@pytest.mark.parametrize(
    "name",
    [
        "The Northern European Association for Freight, Logistics and Regional Development " * 3,
        "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 3,
        "W" * 200,
        "远景能源" * 50,
        "الطاقة" * 40,
        "/" * 200,
        "(!" * 100,
    ],
    ids=["words", "one-word", "wide", "chinese", "arabic", "slashes", "brackets"],
)
def test_a_very_long_name_stays_on_its_page(name: str) -> None:
    line = msgspec.structs.replace(LINE, project_name=name, serial_range=name)
    pdf = certificate_pdf(changed(beneficiary=name, lines=[line]))
    assert list(outside(pdf, FRAME_MM)) == []
    assert squeezed("".join(page_texts(pdf))).replace("\u200b", "").count(squeezed(name)) == 3


def test_ten_thousand_signs_flow_over_pages() -> None:
    for name in ("word " * 2_000, "x" * 10_000):
        pdf = certificate_pdf(changed(beneficiary=name, mode="test"))
        assert list(outside(pdf, 0)) == []
        text = "".join(page_texts(pdf))
        assert text.count("word") == name.count("word")
        assert text.count("x") >= name.count("x")


def test_sixty_lines_flow_over_pages_below_a_repeated_header() -> None:
    pdf = certificate_pdf(sixty("live"))
    pages = page_texts(pdf)
    assert len(pages) > 3
    face = " ".join(pages[0].split())
    assert "60 retirements, set out in the schedule on the following pages." in face
    assert LINE.project_name in face
    for number, page in enumerate(pages[1:], start=2):
        assert "REGISTRY AND SERIAL NUMBERS" in page
        assert f"Page {number} of {len(pages)}" in page
        assert "C-00000123" in page
    serials = re.findall(r"VCS1340-2019 \d+–\d+\.", " ".join("".join(pages).split()))
    assert serials == [line.serial_range for line in sixty("live").lines]
    assert list(outside(pdf, FRAME_MM)) == []


@pytest.mark.parametrize("record", [changed(mode="test"), sixty("test")], ids=["one", "sixty"])
def test_test_mode_is_marked_on_every_page_behind_the_text(record: CertificateRecord) -> None:
    pages = page_texts(certificate_pdf(record))
    # First in the file is farthest behind.
    assert all(page.startswith("TEST") for page in pages)
    assert "Issued in test mode: no credit was retired." in pages[0]
    live = page_texts(certificate_pdf(msgspec.structs.replace(record, mode="live")))
    assert len(live) == len(pages)
    assert not re.search("test", "".join(live), re.IGNORECASE)


def test_a_template_cannot_read_files_outside_the_package(tmp_path: Path) -> None:
    """Even if a record contained them."""
    (tmp_path / "secret.txt").write_text("secret")
    with pytest.raises(PdfFailed, match="root"):
        render_pdf(tmp_path / "secret.txt", {"mode": "live"}, issued_at=datetime(2026, 11, 15, tzinfo=UTC))


def test_numbers_are_never_broken() -> None:
    number, order_id = "TEST-7XKD-M2QH-9RTV-4WNC", "ord_06gtv1alff3htg9thvlvj59t20"
    url = f"https://a-seller-with-a-long-name.example.com/verify/{number}"
    old = Replacement("TEST-3WNC-9RTV-M2QH-7XKD", "The name was misspelt.")
    record = changed(number=number, order_id=order_id, verification_url=url, replaces=old)
    lines = page_texts(certificate_pdf(record))[0].splitlines()
    assert sum(number in line for line in lines) == 2
    assert sum(old.number in line for line in lines) == 2
    assert any(order_id in line for line in lines)


def test_the_face_shows_the_four_largest_projects_for_people() -> None:
    lines = [
        msgspec.structs.replace(LINE, project_id=f"P{n}", project_name=f"Project {n}", quantity=f"{n}.105697")
        for n in (*range(1, 7), *range(1, 7))
    ]
    face, *schedule = page_texts(certificate_pdf(changed(lines=lines, total_quantity="0.634499")))
    assert re.findall(r"Project \d", face) == ["Project 6", "Project 5", "Project 4", "Project 3"]
    said = " ".join(face.split())
    assert "And 2 more projects. 12 retirements, set out" in said
    assert "12.2 t" in said
    assert "634 kilograms CO₂e" in said
    assert "6.105697" in "".join(schedule)


def test_the_beneficiary_s_logo_is_printed_and_a_broken_one_is_left_out() -> None:
    pixels = io.BytesIO()
    Image.new("RGB", (900, 300), (200, 80, 30)).save(pixels, "PNG")
    plain, logo = certificate_pdf(RECORD), pixels.getvalue()
    with_logo = certificate_pdf(RECORD, logo)
    assert with_logo == certificate_pdf(RECORD, logo)
    assert len(pypdf.PdfReader(io.BytesIO(plain)).pages[0].images) == 0
    [image] = pypdf.PdfReader(io.BytesIO(with_logo)).pages[0].images
    assert image.image is not None
    assert image.image.size == (708, 236)
    assert certificate_pdf(RECORD, logo[:60]) == plain
    erased = changed(name_erased_on="2026-12-01")
    assert certificate_pdf(erased, logo) == certificate_pdf(erased), "a person's name was erased: no logo"


@pytest.mark.parametrize(
    ("language", "day", "quantity"),
    [
        ("de", "15. November 2026", "1,105697"),
        ("es", "15 de noviembre de 2026", "1,105697"),
        ("xx", "15 November 2026", "1.105697"),
    ],
)
def test_the_language_is_that_of_the_record(language: str, day: str, quantity: str) -> None:
    pdf = certificate_pdf(changed(language=language))
    text = " ".join(page_texts(pdf)[0].split())
    assert day in text
    assert quantity in text
    assert not lacks_signs(pdf)
    assert list(outside(pdf, FRAME_MM)) == []
