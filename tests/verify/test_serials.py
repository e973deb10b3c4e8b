"""Serials as ten registries write them. The examples are public serials; the random ones have their forms."""

import os
import random
import re
import string
from collections.abc import Callable
from datetime import date
from decimal import Decimal

import pytest

from tests.support.rounds import IS_LONG
from tonne_verify.agreement import check_quantities
from tonne_verify.errors import NotProven
from tonne_verify.serials.parse import parse, parse_block
from tonne_verify.serials.units import SerialError, UnitRange

CASES = 100_000 if IS_LONG else 500
# The registry, a serial, and the units, the namespace, country, project and years that it says.
EXAMPLES = """
Verra | 19385-941467007-941467431-VCS-VCU-1507-VER-ET-14-1340-01012020-31122020-1 | 425 \
| VERRA VER 19385 | ET | 1340 | 2020
Verra | 19902-1139690318-1139925921-VCS-VCU-500-VER-US-3352-01012024-31122024-0 | 235604 \
| VERRA VER 19902 | US | 3352 | 2024
VCS | 8040-449402275-449402275-VCU-042-MER-PE-14-1360-01072013-30062014-1 | 1 | VERRA MER 8040 | PE | 1360 | 2013 2014
Gold Standard | GS1-1-UG-GS11236-16-2024-30307-1-19149 | 19149 | GOLDSTANDARD 11236 2024 30307 | UG | 11236 | 2024
GS | GS1-1-KE-GS7495-16-2025-30645-608-30350 | 29743 | GOLDSTANDARD 7495 2025 30645 | KE | 7495 | 2025
ACR | ACR-FR-1129-2025-2917-30932 to 35143 | 4212 | ACR 1129 2025 2917 | FR | 1129 | 2025
ACR | ACR-US-1187-2024-1-1 to 30429 | 30429 | ACR 1187 2024 1 | US | 1187 | 2024
ACR | ACR-US-1202-2024-1-1-30 | 30 | ACR 1202 2024 1 | US | 1202 | 2024
CAR | CAR-1-US-1335-31-983-KS-2025-9205-1 to 5000 | 5000 | CAR 1335 2025 9205 | US | 1335 | 2025
Puro.earth | PURO_PR_CORC100+_FI_577166_2020_055a3fbe-eabc-4535-b9cf-1028e7d18f89_1-100 | 100 \
| PURO 055A3FBE-EABC-4535-B9CF-1028E7D18F89 | FI | 577166 | 2020
Puro | PURO_PR_CORC_FR_181856_2021_8646834b-ea59-4167-996e-16d8a084cfc1_643002406555908610000000272877-\
643002406555908610000000272883 | 7 | PURO 8646834B-EA59-4167-996E-16D8A084CFC1 643002406555908610 | FR | 181856 | 2021
Isometric | ISO-1-BSTORE-GBR-F5X7-2024-78177-81177 | 3001 | ISOMETRIC F5X7 2024 | GBR | F5X7 | 2024
Plan Vivo | PV-rPVC-MZ-110200000000034-01052022-30042023-1-2550-SPG | 2550 \
| PLANVIVO PV-RPVC-MZ-110200000000034-01052022-30042023- -SPG | MZ | 110200000000034 | 2022 2023
Plan Vivo | PV-PVC-BO-100000000000695-01012011-31122011-2115878-2116184-MER-0-A | 307 \
| PLANVIVO PV-PVC-BO-100000000000695-01012011-31122011- -MER-0-A | BO | 100000000000695 | 2011
BioCarbon | BCR-CO-259-14-002-2-2401-2409-0043804-0043903 | 100 | BIOCARBON BCR-CO-259-14-002-2-2401-2409- \
| CO | CO-259-14-002 | 2024
BioCarbon Registry | PCR-CO-BFX-14-002-2-2101-2112-0000001-0299564 | 299564 \
| BIOCARBON PCR-CO-BFX-14-002-2-2101-2112- | CO | CO-BFX-14-002 | 2021
Cercarbono | CDC_1_1_1_321_14_1_2009 from 4426 to 4971 | 546 | CERCARBONO CDC_1_1_1_321_14_1_2009 | | 1 | 2009
Cercarbono | CDC_106_2_8_322_14_CO_1_1_2019 from 1 to 9 | 9 | CERCARBONO CDC_106_2_8_322_14_CO_1_1_2019 | | 106 | 2019
Cercarbono | CDC_1_1_1_R7_321_14_1_2009 from 1 to 2 | 2 | CERCARBONO CDC_1_1_1_321_14_1_2009 | | 1 | 2009
CDM | RW-5-1463953-2-2-0-7014 - RW-5-1467609-2-2-0-7014 | 3657 | CDM RW 5 2 | RW | 7014 |
Gold Standard | RW-5-1460108-2-2-0-7014 - RW-5-1463952-2-2-0-7014 | 3845 | CDM RW 5 2 | RW | 7014 |
Verra | TEST-9-1-40-VCS-VCU-1-VER-ET-14-1340-01012020-31122020-0 | 40 | TEST VERRA VER 9 | ET | 1340 | 2020
Climate Forward | CF-12 Abc 101–200 | 100 | CLIMATEFORWARD CF12ABC | | |
Climate Forward | 2019 17 | 1 | CLIMATEFORWARD 2019 | | |
"""


def examples() -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in EXAMPLES.strip().splitlines()]


def stated(units: UnitRange) -> list[str]:
    years = "" if units.vintage is None else " ".join(sorted({str(day.year) for day in units.vintage}))
    count = units.quantity_grams // units.unit_grams
    return [str(count), units.namespace, units.country or "", units.project_id or "", years]


def test_public_serials_are_read_and_printed_byte_for_byte() -> None:
    found = [
        [registry, parse(registry, text).text, *stated(parse(registry, text))] for registry, text, *_ in examples()
    ]
    assert found == examples()


def test_only_isometric_counts_kilograms() -> None:
    units = {registry: parse(registry, text).unit_grams for registry, text, *_ in examples()}
    assert {registry for registry, grams in units.items() if grams != 1_000_000} == {"Isometric"}
    assert units["Isometric"] == 1_000


def test_a_part_is_printed_in_the_frame_of_the_whole() -> None:
    block = parse("Verra", "12082-384723093-384723192-VCS-VCU-304-VER-CN-1-191-01012008-31122008-0")
    part = block.part(384723100, 384723100)
    assert part.text == "12082-384723100-384723100-VCS-VCU-304-VER-CN-1-191-01012008-31122008-0"
    assert parse("Verra", part.text) == part
    assert (
        parse("BioCarbon", "BCR-CO-259-14-002-2-2401-2409-0043804-0043903")
        .part(43804, 43805)
        .text.endswith("-0043804-0043805")
    )
    assert parse("Other", "BLOCK 7–9").part(8, 8).text == "BLOCK 8"


@pytest.mark.parametrize(
    ("registry", "text", "reason"),
    [
        ("Verra", "12082", "is not a serial of Verra: copy the whole serial"),
        ("Verra", "9-1-40-VCS-VCU-1-VER-ET-14-1340-01012020-31122020-O", "ends with the letter O: write 0"),
        (
            "Verra",
            "9-40-1-VCS-VCU-1-VER-ET-14-1340-01012020-31122020-0",
            "the last number 1 is below the first number 40",
        ),
        ("Verra", "9-1-40-VCS-VCU-1-VER-ET-14-1340-31022020-31122020-0", "31022020 in the serial is not a date"),
        ("Verra", "9-1-40-VCS-VCU-1-VER-ET-14-1340-01012021-31122020-0", "the vintage ends on 2020-12-31, before"),
        ("Verra", "9-01-40-VCS-VCU-1-VER-ET-14-1340-01012020-31122020-0", "is not a serial of Verra"),
        (
            "CAR",
            "CAR-ROC-US-2056-129-2283-WV-2025-8969-1 to 260294",
            "ROC are offset credits of a compliance programme",
        ),
        ("BioCarbon", "BCR-CO-259-14-002-R-2401-2409-0043804-0043903", "class R are a reserve"),
        ("Cercarbono", "CDC_1_1_1_321_14_1_BF from 1 to 2", "credits of the buffer (BF) are no supply"),
        ("CDM", "RW-5-1-2-2-0-7014 - KE-5-2-2-2-0-7014", "is not a serial of CDM"),
        ("Other", "BLOCK", "is not a block with numbers"),
        ("Other", "-- 1–2", "is not a block with numbers"),
    ],
)
def test_a_serial_that_cannot_be_right_is_refused(registry: str, text: str, reason: str) -> None:
    with pytest.raises(SerialError, match=reason.replace("(", r"\(").replace(")", r"\)")):
        parse(registry, text)


def test_spellings_of_the_same_units_are_equal() -> None:
    whole = parse("Verra", "19385-7-8-VCS-VCU-1507-VER-ET-14-1340-01012020-31122020-1")
    assert parse("verra vcs", " 19385–7–8–vcs–vcu–1507–ver–et–14–1340–01012020–31122020–1 ") == whole
    assert parse("American Carbon Registry", "acr-fr-1129-2025-2917-1  TO  3") == parse(
        "ACR", "ACR-FR-1129-2025-2917-1 to 3"
    )
    blocks = ("9731-VCS-VCU", "9731-vcs-vcu", "9731 VCS VCU", "9731VCSVCU", "9731–VCS‑VCU", "９７３１/vcs.vcu")
    assert {parse_block("Other", block, 1, 2).namespace for block in blocks} == {"OTHER 9731VCSVCU"}


def test_numbers_apart_from_the_serial_are_put_into_it() -> None:
    for registry, text, *_ in examples():
        units = parse(registry, text)
        block = units.before + units.after.removeprefix("-")
        if units.grammar in {"cdm", "plain"} or units.width == 12:
            continue
        assert parse_block(registry, block.replace(" from ", ""), units.first, units.last).namespace == units.namespace
    # A block without the rest of the serial says nothing of its project.
    with pytest.raises(SerialError, match="is not a serial of Verra"):
        parse_block("Verra", "12082", 384723093, 384723192)
    assert parse_block("Verra", "TEST-VCS1340-2021", 1, 2).text == "TEST-VCS1340-2021 1–2"
    with pytest.raises(SerialError, match="ends like a range of numbers"):
        parse_block("Other", "BLOCK 5 to", 6, 6)


Make = Callable[[random.Random, str, str], str]


def _code(chance: random.Random, letters: str, count: int) -> str:
    return "".join(chance.choices(letters, k=count))


def _country(chance: random.Random) -> str:
    return _code(chance, string.ascii_uppercase, 2)


def _id(chance: random.Random) -> str:
    return str(chance.randint(1, 10 ** chance.randint(1, 6)))


def _days(chance: random.Random) -> str:
    start = date(chance.randint(1990, 2030), chance.randint(1, 12), chance.randint(1, 28))
    return f"{start:%d%m%Y}-{start.replace(year=start.year + chance.randint(0, 3), day=28):%d%m%Y}"


def _uuid(chance: random.Random) -> str:
    return "-".join(_code(chance, "0123456789abcdef", count) for count in (8, 4, 4, 4, 12))


def _puro(chance: random.Random) -> str:
    kind = chance.choice(["CORC", "CORC20+", "CORC100+", "CORC1000+", "CORC_100"])
    return f"PURO_PR_{kind}_{_country(chance)}_{_code(chance, '0123456789AB', 6)}_2021_{_uuid(chance)}_"


def _gsrn(chance: random.Random, a: str, b: str) -> str:
    gsrn = _code(chance, string.digits, 18)
    return f"{_puro(chance)}{gsrn}{a[-12:]:0>12}-{gsrn}{b[-12:]:0>12}"


def _cdm(chance: random.Random, a: str, b: str) -> str:
    country, rest = (
        _country(chance),
        f"{chance.randint(1, 2)}-{chance.randint(1, 2)}-{chance.randint(0, 3)}-{_id(chance)}",
    )
    return f"{country}-5-{a}-{rest} - {country}-5-{b}-{rest}"


MAKERS: dict[str, tuple[str, Make]] = {
    "verra": (
        "Verra",
        lambda c, a, b: (
            f"{_id(c)}-{a}-{b}-{c.choice(['VCS-', ''])}VCU-{c.randint(1, 1600):03}-{c.choice(['VER', 'MER'])}"
            f"-{_country(c)}{c.choice(['', f'-{c.randint(1, 15)}'])}-{_id(c)}-{_days(c)}-{c.randint(0, 1)}"
        ),
    ),
    "gold_standard": (
        "Gold Standard",
        lambda c, a, b: f"GS1-{c.randint(1, 3)}-{_country(c)}-GS{_id(c)}-{c.randint(1, 30)}-2024-{_id(c)}-{a}-{b}",
    ),
    "acr": ("ACR", lambda c, a, b: f"ACR-{_country(c)}-{_id(c)}-2024-{_id(c)}-{a}{c.choice([' to ', '-'])}{b}"),
    "car": (
        "CAR",
        lambda c, a, b: f"CAR-1-{_country(c)}-{_id(c)}-{_id(c)}-{_id(c)}-{_country(c)}-2025-{_id(c)}-{a} to {b}",
    ),
    "puro": ("Puro", lambda c, a, b: f"{_puro(c)}{a}-{b}"),
    "puro_gsrn": ("Puro", _gsrn),
    "isometric": (
        "Isometric",
        lambda c, a, b: (
            f"ISO-1-BSTORE-{_code(c, string.ascii_uppercase, 3)}-{_code(c, 'ABCXYZ0123456789', 4)}-2024-{a}-{b}"
        ),
    ),
    "plan_vivo": (
        "Plan Vivo",
        lambda c, a, b: (
            f"PV-{c.choice(['PVC', 'rPVC', 'vPVC'])}-{_country(c)}-{_code(c, string.digits, 15)}-{_days(c)}-{a}-{b}-"
            f"{c.choice(['SPG', 'MER-0-A'])}"
        ),
    ),
    "biocarbon": (
        "BioCarbon",
        lambda c, a, b: (
            f"{c.choice(['BCR', 'PCR'])}-{_country(c)}-{_id(c)}-14-002-{c.choice('23')}-2401-2409-{a:0>7}-{b:0>7}"
        ),
    ),
    "cercarbono": (
        "Cercarbono",
        lambda c, a, b: f"CDC_{_id(c)}_{_id(c)}_8_322_14{c.choice(['', '_CO', '_R6'])}_1_2019 from {a} to {b}",
    ),
    "cdm": ("CDM", _cdm),
    "plain": ("Other", lambda c, a, b: f"{_code(c, 'ABC-/.', 5)}X {a}–{b}"),
}


@pytest.mark.parametrize("form", MAKERS)
def test_random_serials_and_their_parts_are_printed_as_they_were_read(form: str) -> None:
    seed = int(os.environ.get("SERIALS_SEED") or random.SystemRandom().getrandbits(32))
    print(f"SERIALS_SEED={seed}")  # noqa: T201 - shown when the test fails
    chance = random.Random(f"{seed} {form}")  # noqa: S311 - repeatable on purpose
    registry, make = MAKERS[form]
    for _ in range(CASES):
        first = chance.randrange(10 ** chance.randint(1, 11))
        last = first + chance.randrange(1, 10 ** chance.randint(1, 6))
        text = make(chance, str(first), str(last))
        units = parse(registry, text)
        assert (units.first, units.last, units.text) == (first, last, text)
        start = chance.randint(first, last)
        part = units.part(start, chance.randint(start, last))
        assert parse(registry, part.text) == part, text
        changed = _change(chance, text)
        if changed != text:
            _assert_other(registry, units, changed)


def _change(chance: random.Random, text: str) -> str:
    """One character of another value."""
    place = chance.randrange(len(text))
    return text[:place] + chance.choice("0123456789ABCZ-_x") + text[place + 1 :]


# Parts that do not say which units a serial means.
NO_IDENTITY = {
    "verra": r"(?:VCS-)?VCU-\d+-|(?<=-[A-Z]{2})-\d{1,2}(?=-\d+-\d{8}-)|[01]$",
    "gold_standard": r"^GS\d-\d+|(?<=-)\d+(?=-2024-)",
    "acr": " TO ",
    "car": r"(?<=-)\w+-\w+-\w+(?=-2025-)",
    "puro": r"CORC(?:_?\d+\+?)?(?=_)",
    "isometric": r"(?<=ISO-1-)\w+",
    "cdm": r"(?<=-\d-)\d-\d+(?=-)",
    "cercarbono": "(?<=_)R.(?=_)",
}


def _assert_other(registry: str, units: UnitRange, changed: str) -> None:
    """A serial with one other character is refused, or says something else; or the character is in no identity."""
    try:
        other = parse(registry, changed)
    except SerialError:
        return
    if _identity(other) == _identity(units):
        mask = NO_IDENTITY.get(units.grammar, "$^")
        assert re.sub(mask, "", other.text.upper()) == re.sub(mask, "", units.text.upper()), (units.text, changed)


def _identity(units: UnitRange) -> tuple[object, ...]:
    if units.grammar == "plain":
        return (units.before, units.first, units.last)
    return units.namespace, units.first, units.last, units.country, units.project_id, units.vintage


def retired(first: int, last: int, quantity: str, **changes: str) -> dict[str, str]:
    serial = f"9731-{first}-{last}-VCS-VCU-1-VER-KE-1-1-01012024-31122024-0"
    stated = {"registry": "Verra", "project_id": "VCS1", "vintage": "2024", "serial_range": serial}
    return {**stated, "quantity": quantity, **changes}


OF_ISOMETRIC = {"registry": "Isometric", "project_id": "F5X7", "serial_range": "ISO-1-BSTORE-GBR-F5X7-2024-1-10"}


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (retired(51, 150, "100"), "9731-1-100-VCS.* and 9731-51-150-VCS.* overlap: a tonne is counted twice"),
        (retired(101, 102, "1000"), "9731-101-102-.* has 2 t, not the 1000 t"),
        (retired(101, 102, "2", serial_range="9731"), "“9731” is not a serial of Verra"),
        (retired(101, 102, "2"), None),
        # Other units: of another batch, of another registry, or in kilograms.
        (retired(51, 150, "100", serial_range=retired(51, 150, "")["serial_range"].replace("9731-", "9732-")), None),
        (retired(1, 1, "100", registry="Somebody", serial_range="9731 51–150"), None),
        (retired(1, 1, "0.01", **OF_ISOMETRIC), None),
        (retired(1, 1, "10", **OF_ISOMETRIC), "has 0.01 t"),
    ],
)
def test_the_verifier_counts_serials_and_finds_overlaps(second: dict[str, str], reason: str | None) -> None:
    lines = [retired(1, 100, "100"), second]
    total = str(sum(Decimal(line["quantity"]) for line in lines))
    subject = {"lines": lines, "total_quantity": total}
    if reason is None:
        check_quantities(subject, lines)
    else:
        with pytest.raises(NotProven, match=reason):
            check_quantities(subject, lines)
