"""The list of an organisation's certificates, and the search in what they state."""

import pytest

from tests.supply.retirements.shop import Shop
from tonne.platform.values.context import Scope
from tonne.platform.values.paging import START, Position
from tonne.supply.certificates import store
from tonne.supply.certificates.store import CertificateFilter, list_certificates


async def read_pages(shop: Shop, scope: Scope, text: str | None, limit: int = 2) -> tuple[list[str], int]:
    """The beneficiaries on all pages, and how many pages there are that say that more may match."""
    names, short, start = list[str](), 0, START
    while True:
        async with shop.database.connection() as connection:
            wanted = CertificateFilter(mode=shop.mode, text=text)
            page = await list_certificates(connection, scope.organisation_id, wanted, start, limit=limit)
        names += [each.record.beneficiary for each in page.certificates]
        short += page.is_short
        if page.next is None:
            return names, short
        assert isinstance(page.next, Position)
        start = page.next


async def test_a_search_finds_parts_of_texts_and_reads_so_many_certificates_for_a_page(
    live: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await live.sell("ready", {"A": 1})
    await live.supply("A", 2020, 10, retired=True)
    names = ["Ada & Söhne", "Bo", "Cy", "Ada Two", "Dee", "Eve", "Flo", "ada three"]
    accounts = [await live.account(name) for name in names]
    for account in accounts:
        await live.buy(account, 100_000, "ready")
        await live.work()
    newest = names[::-1]
    for at_once, scanned in ((300, 3_000), (2, 4)):
        monkeypatch.setattr(store, "_AT_ONCE", at_once)
        monkeypatch.setattr(store, "SCANNED", scanned)
        assert await read_pages(live, accounts[0], None) == (newest, 0)
        found = [await read_pages(live, accounts[0], text) for text in ("ADA", "söhne", "wird nicht gefunden")]
        assert [names for names, _ in found] == [["ada three", "Ada Two", "Ada & Söhne"], ["Ada & Söhne"], []]
        assert any(short for _, short in found) == (scanned == 4)
