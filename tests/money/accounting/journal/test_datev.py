"""The file for DATEV: the patterns that are published, and a transit account that ends at zero. No checker exists."""

import csv
import io
import random
import re
from collections import Counter
from datetime import date
from decimal import Decimal

import pytest

from tests.architecture.source import ROOT
from tests.money.accounting.journal.month import Month
from tests.support.clock import ManualClock
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.money.accounting.books.chart import Office, import_chart, require_chart
from tonne.money.accounting.books.check_month import check_month
from tonne.money.accounting.books.errors import ChartIncomplete
from tonne.money.accounting.books.files import FILES
from tonne.money.accounting.journal.read_journal import month_period, sum_turnover
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.context import Mode

# Text in quotes with doubled quotes, or a number, or nothing.
HEAD = re.compile(
    r'"EXTF";700;21;"Buchungsstapel";13;\d{17};;"RE";"";"";1001;7;\d{8};4;\d{8};\d{8};"Tonne \d{4}-\d\d";"";1;0;0;'
    r'"CHF";;"";;;"";;;"";""\r\n'
)
ROW = re.compile(
    r'(?P<amount>\d{1,10},\d\d);"(?P<side>[SH])";"(?P<currency>[A-Z]{3})";;;;(?P<account>\d{4});(?P<contra>\d{4});""'
    r';(?P<day>\d{4});"[a-z_]{1,8}\d{6}";"";;"[^"]{1,60}"\r\n'
)


@pytest.mark.parametrize("name", ["skr03", "skr04"])
async def test_a_batch_of_bookings_balances_on_its_transit_account(
    services: Services, world: World, clock: ManualClock, name: str
) -> None:
    month = Month(services, world, clock, random.Random(3))  # noqa: S311 - repeatable on purpose
    await month.begin()
    await month.work()
    await month.post_entries()
    period = month_period(Mode.TEST, clock.now.date())
    by, content = TESTER.at(clock.now), (ROOT / "docs" / "charts" / f"{name}.csv").read_bytes()
    async with month.database.transaction() as tx:
        with pytest.raises(ChartIncomplete, match="There is no chart"):
            await require_chart(tx, period)
        check = await check_month(tx, period, clock.now)
        assert "never has a file for DATEV" in " ".join(check.warnings)
        gap = b"".join(line for line in content.splitlines(keepends=True) if b"Card-Clearing" not in line)
        await import_chart(tx, SheetFile("chart.csv", gap), Office(1001, 7), by=by)
        with pytest.raises(ChartIncomplete, match=r"no number for Assets:Card-Clearing\."):
            await require_chart(tx, period)
        for name_ in ("journal.csv", "journal.beancount"):
            with pytest.raises(ChartIncomplete, match=r"no number for Assets:Card-Clearing\."):
                _ = [part async for part in FILES[name_].write(tx, period)]
        check = await check_month(tx, period, clock.now)
        assert any("no number for Assets:Card-Clearing. Import a complete one" in each for each in check.refusals)
        wrong = content.replace(b"Assets:Bank", b"Assets:Sofa").replace(b"3806", b"38").replace(b"1776", b"x")
        with pytest.raises(SheetInvalid):
            await import_chart(tx, SheetFile("chart.csv", wrong), Office(1001, 7), by=by)
        await import_chart(tx, SheetFile("chart.csv", content), Office(1001, 7, currency="CHF"), by=by)
        chart = await require_chart(tx, period)
        assert (await check_month(tx, period, clock.now)).warnings == []
        journal = "".join([part async for part in FILES["journal.csv"].write(tx, period)])
        for line in csv.DictReader(io.StringIO(journal)):
            assert line["number"] == chart.number(line["account"], line["tax_code"])
        text = "".join([part async for part in FILES["datev.csv"].write(tx, period)])
        totals = {chart.line(each.account, each.tax_code).number: each for each in await sum_turnover(tx, period)}
    head, titles, *rows = text.splitlines(keepends=True)
    assert HEAD.fullmatch(head), head
    assert titles.startswith('"Umsatz (ohne Soll/Haben-Kz)";"Soll/Haben-Kennzeichen";"WKZ Umsatz"')
    assert "Schlüssel".encode("cp1252") in FILES["datev.csv"].encode(text)
    sums: Counter[str] = Counter()
    for row in rows:
        found = ROW.fullmatch(row)
        assert found is not None, row
        minor = int(Decimal(found["amount"].replace(",", ".")) * 100) * (1 if found["side"] == "S" else -1)
        sums[found["account"]] += minor
        sums[found["contra"]] -= minor
        date(clock.now.year, int(found["day"][2:]), int(found["day"][:2]))
    assert sums.pop(chart.line("Transit", "").number) == 0
    assert {number: minor for number, minor in sums.items() if minor} == {
        number: each.balance_minor for number, each in totals.items() if each.balance_minor
    }
