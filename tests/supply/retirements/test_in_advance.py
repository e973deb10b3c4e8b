"""Certificates say which credits were retired before they were assigned to the order."""

from datetime import UTC, datetime

import msgspec

from tests.supply.retirements.shop import TONNE, Shop
from tests.support.certificates import LINE, RECORD
from tests.support.pdf_pages import outside, page_texts
from tonne.supply.certificates.pdf import certificate_pdf
from tonne.supply.certificates.record import CertificateRecord, RetiredInAdvance
from tonne.supply.certificates.store import supply_day

MARGIN_MM = 10


async def test_people_a6_credits_of_a_pre_retired_lot_say_so(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10, retired=True)
    order = await live.buy(await live.account("Ada"), 2_300_000, "wind")
    live.clock.turn_to(3, 4)
    await live.work()
    certificate = await live.certificate(order)
    lines = certificate["lines"]
    assert certificate["supplied_on"] == (await live.shown(order))["supplied_on"] == "2026-03-04"
    assert [line["retired_on"] for line in lines] == ["2025-05-06"] * 2
    said = {"retired_by": "Tonne", "assigned_to": "Ada", "assigned_on": "2026-03-04"}
    assert [line["in_advance"] for line in lines] == [said, said]
    await live.check_invariants()


async def test_people_a6_credits_that_are_retired_for_the_order_do_not(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10)
    order = await live.buy(await live.account("Ada"), 2 * TONNE, "wind")
    await live.work()
    assert "supplied_on" not in await live.shown(order)
    live.clock.turn_to(3, 9)
    await live.confirm(*await live.work_list())
    await live.work()
    certificate = await live.certificate(order)
    (line,) = certificate["lines"]
    assert (line["retired_on"], line["in_advance"]) == ("2026-03-09", None)
    assert certificate["supplied_on"] == (await live.shown(order))["supplied_on"] == "2026-03-09"


def test_the_date_of_supply_is_that_of_the_last_credits() -> None:
    now = datetime(2026, 12, 31, tzinfo=UTC)
    early, late = (msgspec.structs.replace(LINE, retired_on=day) for day in ("2026-03-01", "2026-04-01"))
    assigned = msgspec.structs.replace(early, in_advance=RetiredInAdvance("Seller", "Ada", "2026-05-01"))
    assert [supply_day(lines, now).isoformat() for lines in ([late, early], [late, assigned], [])] == [
        "2026-04-01",
        "2026-05-01",
        "2026-12-31",
    ]


async def test_people_a6_a_later_fraction_of_a_retired_unit_was_retired_in_advance(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10)
    first = await live.buy(await live.account("Ada"), 300_000, "wind")
    await live.work()
    live.clock.turn_to(4, 9)
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    live.clock.turn_to(5, 20)
    second = await live.buy(await live.account("Berta"), 200_000, "wind")
    await live.work()
    (line,) = (await live.certificate(first))["lines"]
    assert line["in_advance"] is None
    (line,) = (await live.certificate(second))["lines"]
    assert (line["retired_on"], line["shared"]["share"]) == ("2026-04-09", "0.2")
    assert line["in_advance"] == {"retired_by": "Tonne", "assigned_to": "Berta", "assigned_on": "2026-05-20"}
    await live.check_invariants()


ADVANCE = RetiredInAdvance("Example Offsets Ltd", "Marlowe & Finch Shipping Ltd", "2026-11-15")
SAID = (
    "Retired in advance by Example Offsets Ltd on 9 November 2026, assigned to Marlowe & Finch Shipping Ltd on "
    "15 November 2026."
)


def pdf_text(record: CertificateRecord) -> str:
    pdf = certificate_pdf(record)
    assert not list(outside(pdf, MARGIN_MM))
    return " ".join(" ".join(page_texts(pdf)).split())


def test_people_a6_the_pdf_says_so() -> None:
    line = msgspec.structs.replace(LINE, in_advance=ADVANCE)
    text = pdf_text(msgspec.structs.replace(RECORD, lines=[line]))
    assert SAID in text
    assert "were retired in advance and are assigned to Marlowe & Finch Shipping Ltd" in text
    assert "behalf of Marlowe" not in text
    mixed = pdf_text(msgspec.structs.replace(RECORD, lines=[line, LINE]))
    assert mixed.count(SAID) == 1
    assert "were retired on behalf of Marlowe & Finch Shipping Ltd" in mixed
    assert "Some were retired in advance, as stated." in mixed
    assert "advance" not in pdf_text(RECORD)


def test_a_certificate_issued_before_the_field_existed_is_readable() -> None:
    stored = msgspec.to_builtins(RECORD)
    for line in stored["lines"]:
        del line["in_advance"]
    assert msgspec.convert(stored, CertificateRecord) == RECORD
