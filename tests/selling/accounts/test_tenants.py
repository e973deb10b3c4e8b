"""Organisations, accounts and default selections."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from tests.support.clock import START
from tests.support.world import TESTER, World
from tonne.platform.db.database import Connection, Database
from tonne.platform.values.context import Mode, Scope, new_id, replace
from tonne.selling.accounts import store
from tonne.selling.accounts.change_account import open_account
from tonne.selling.accounts.errors import CurrencyUnknown, FeeRateInvalid, NameInvalid, OrganisationNotFound
from tonne.selling.accounts.model import Account, AccountKind, PaymentMethod
from tonne.selling.accounts.organisations.change_organisation import open_organisation


async def _organisation(tx: Connection, name: str = "Ours", fee_rate: str = "0.10") -> str:
    return (await open_organisation(tx, name, Decimal(fee_rate), by=TESTER.at(START))).id


def _account(organisation_id: str, **changes: Any) -> Account:
    scope = Scope(organisation_id, new_id("acc"), Mode.TEST)
    account = Account(scope, AccountKind.ACCOUNT, "Main", "EUR", "Beneficiary", PaymentMethod.INVOICE, START)
    return replace(account, **changes)


async def test_an_organisation_opens_in_both_modes_each_with_its_own_stream(db: Database) -> None:
    async with db.transaction() as tx:
        organisation_id = await _organisation(tx)
        modes = await tx.fetch(
            "SELECT mode FROM organisation_modes WHERE organisation_id = $1 ORDER BY 1", organisation_id
        )
        streams = await tx.fetch(
            "SELECT mode, last_position FROM event_streams WHERE organisation_id = $1", organisation_id
        )
    assert [row["mode"] for row in modes] == ["live", "test"]
    assert {tuple(row) for row in streams} == {("live", 0), ("test", 0)}


@pytest.mark.parametrize("fee_rate", ["0", "0.1", "0.10000", "0.99999", "0.00001"])
async def test_a_fee_rate_is_stored_exactly(db: Database, fee_rate: str) -> None:
    async with db.transaction() as tx:
        organisation_id = await _organisation(tx, fee_rate=fee_rate)
        scope = (await open_account(tx, _account(organisation_id), actor=TESTER)).scope
        assert (await store.find_terms(tx, scope)).fee_rate == Fraction(fee_rate)


@pytest.mark.parametrize("fee_rate", ["1", "1.5", "-0.1", "0.000001", "0.1234567"])
async def test_a_fee_rate_out_of_range_or_too_precise_is_rejected(db: Database, fee_rate: str) -> None:
    with pytest.raises(FeeRateInvalid):
        async with db.transaction() as tx:
            await _organisation(tx, fee_rate=fee_rate)


@pytest.mark.parametrize("name", ["", " ", "x" * 201, "two\nlines", "nul\x00", "\u202eturned", "a\tb"])
async def test_an_unprintable_name_is_rejected(db: Database, name: str) -> None:
    with pytest.raises(NameInvalid):
        async with db.transaction() as tx:
            await _organisation(tx, name)
    async with db.transaction() as tx:
        organisation_id = await _organisation(tx)
        for changes in ({"name": name}, {"beneficiary": name}):
            with pytest.raises(NameInvalid):
                await open_account(tx, _account(organisation_id, **changes), actor=TESTER)


@pytest.mark.parametrize("name", ["x", "Fjörd & Söhne GmbH", "株式会社", 'O\'Brien "Ltd" <b>', "x" * 200])
async def test_a_name_in_any_script_is_stored_unchanged(db: Database, name: str) -> None:
    async with db.transaction() as tx:
        await _organisation(tx, name)
        assert [found.name for found in await store.list_organisations_any_account(tx)] == [name]


@pytest.mark.parametrize("currency", ["XXX", "eur", "EURO", "", "DEM", "€"])
async def test_an_unknown_currency_is_rejected(db: Database, currency: str) -> None:
    async with db.transaction() as tx:
        organisation_id = await _organisation(tx)
        with pytest.raises(CurrencyUnknown) as refusal:
            await open_account(tx, _account(organisation_id, currency=currency), actor=TESTER)
    assert refusal.value.faults[0].field == "currency"


async def test_an_account_needs_an_organisation(db: Database) -> None:
    with pytest.raises(OrganisationNotFound):
        async with db.transaction() as tx:
            await open_account(tx, _account("org_gone"), actor=TESTER)


async def test_accounts_are_listed_per_organisation(db: Database) -> None:
    async with db.transaction() as tx:
        ours, theirs = await _organisation(tx), await _organisation(tx, "Theirs")
        account = await open_account(tx, _account(ours, kind=AccountKind.CLIENT_ACCOUNT, currency="JPY"), actor=TESTER)
        assert await store.list_accounts(tx, ours) == [account]
        assert await store.list_accounts(tx, theirs) == []
        assert await store.find_account_any_account(tx, account.scope.account_id) == account
        assert await store.has_account(tx, ours, Mode.TEST, account.scope.account_id)
        assert not await store.has_account(tx, ours, Mode.LIVE, account.scope.account_id)
        assert not await store.has_account(tx, theirs, Mode.TEST, account.scope.account_id)


async def test_a_changed_account_keeps_its_currency(db: Database) -> None:
    async with db.transaction() as tx:
        account = await open_account(tx, _account(await _organisation(tx)), actor=TESTER)
        changed = replace(account, name="New", beneficiary="Other", payment_method=PaymentMethod.CARD, currency="USD")
        await store.update_account(tx, changed)
        assert await store.list_accounts(tx, account.scope.organisation_id) == [replace(changed, currency="EUR")]
        assert (await store.find_terms(tx, account.scope)).payment_method is PaymentMethod.CARD


async def test_the_default_selection_falls_back_to_the_organisations(populated_db: Database, world: World) -> None:
    scope = world.ours_test.scope
    own, shared = [{"bundle_id": "bun_own"}], [{"bundle_id": "bun_shared", "percentage": "100"}]
    async with populated_db.transaction() as tx:
        assert (await store.find_terms(tx, scope)).default_selection is None
        await store.set_organisation_selection(tx, scope.organisation_id, Mode.TEST, shared)
        assert (await store.find_terms(tx, scope)).default_selection == shared
        assert (await store.find_terms(tx, world.ours_live.scope)).default_selection is None
        await store.set_account_selection(tx, scope, own)
        assert (await store.find_terms(tx, scope)).default_selection == own
        client = replace(scope, account_id=world.ours_test.client_account_id)
        assert (await store.find_terms(tx, client)).default_selection == shared
        await store.set_account_selection(tx, scope, None)
        assert (await store.find_terms(tx, scope)).default_selection == shared
        assert (await store.find_terms(tx, world.theirs_test.scope)).default_selection is None


async def test_terms_of_an_account_are_not_found_in_another_scope(populated_db: Database, world: World) -> None:
    ours = world.ours_test.scope
    for scope in (
        replace(ours, mode=Mode.LIVE),
        replace(ours, organisation_id=world.theirs_test.scope.organisation_id),
    ):
        async with populated_db.connection() as connection:
            with pytest.raises(LookupError):
                await store.find_terms(connection, scope)


async def test_opening_is_audited(db: Database) -> None:
    async with db.transaction() as tx:
        organisation_id = await _organisation(tx)
        account = await open_account(tx, _account(organisation_id), actor=TESTER)
        rows = await tx.fetch(
            "SELECT actor, action, subject_id FROM audit_log WHERE organisation_id = $1 ORDER BY id", organisation_id
        )
    assert [tuple(row) for row in rows] == [
        (str(TESTER), "organisation.opened", organisation_id),
        (str(TESTER), "account.opened", account.scope.account_id),
    ]
