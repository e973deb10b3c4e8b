"""The data of most tests: two organisations with accounts in both modes, and the demo catalogue."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec

from tests.support.clock import START
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Actor, ActorKind, Mode, Scope, new_id
from tonne.selling.accounts.change_account import open_account
from tonne.selling.accounts.keys.api_keys import issue_key
from tonne.selling.accounts.model import Account, AccountKind, PaymentMethod
from tonne.selling.accounts.organisations.change_organisation import open_organisation
from tonne.selling.catalogue.demo import demo_files
from tonne.supply.stock.lots.import_lots import import_files

# Makes the changes that no test is about.
TESTER = Actor(ActorKind.SYSTEM, "test")
# Settings without which live invoices wait.
SELLER = {
    "seller_name": "Offsets Ltd",
    "seller_address": "Harbour Street 7; Bristol",
    "seller_tax_id": "none",
    "bank_iban": "DE89 3704 0044 0532 0130 00",
}
# The parts of a tax profile without which live invoices with tax wait.
ADDRESS: dict[str, Any] = {"street": "Hafenstraße 12", "postcode": "20457", "city": "Hamburg", "country": "DE"}


class Tenant(msgspec.Struct, frozen=True):
    """An account, a client account of the same organisation, and a key whose default account is the first."""

    scope: Scope
    client_account_id: str
    key: str
    key_id: str


class World(msgspec.Struct, frozen=True):
    """`ours` and `theirs` are different organisations. The bundles are enabled, by slug."""

    ours_test: Tenant
    ours_live: Tenant
    theirs_test: Tenant
    bundles_test: dict[str, str]
    bundles_live: dict[str, str]
    disabled_bundle_test: str


async def build_world(tx: Connection) -> World:
    ours = (await open_organisation(tx, "Ours", Decimal("0.10"), by=TESTER.at(START))).id
    theirs = (await open_organisation(tx, "Theirs", Decimal("0.10"), by=TESTER.at(START))).id
    for mode in Mode:
        await import_files(tx, mode, demo_files(mode), currency="EUR", by=TESTER.at(START), is_demo=True)
    bundles = await tx.fetch("SELECT mode, slug, id, enabled FROM bundles ORDER BY position")
    return World(
        ours_test=await open_tenant(tx, ours, Mode.TEST),
        ours_live=await open_tenant(tx, ours, Mode.LIVE),
        theirs_test=await open_tenant(tx, theirs, Mode.TEST),
        bundles_test={row["slug"]: row["id"] for row in bundles if row["mode"] == "test" and row["enabled"]},
        bundles_live={row["slug"]: row["id"] for row in bundles if row["mode"] == "live" and row["enabled"]},
        disabled_bundle_test=next(row["id"] for row in bundles if row["mode"] == "test" and not row["enabled"]),
    )


async def open_tenant(tx: Connection, organisation_id: str, mode: Mode, currency: str = "EUR") -> Tenant:
    scopes = [await add_account(tx, organisation_id, mode, kind=kind, currency=currency) for kind in AccountKind]
    key, secret = await issue_key(tx, scopes[0], "test key", by=TESTER.at(START))
    return Tenant(scopes[0], scopes[1].account_id, secret, key.id)


async def add_account(
    tx: Connection,
    organisation_id: str,
    mode: Mode,
    *,
    kind: AccountKind = AccountKind.ACCOUNT,
    beneficiary: str = "Beneficiary",
    currency: str = "EUR",
    method: PaymentMethod = PaymentMethod.INVOICE,
    auto_advance: bool = True,
    now: datetime = START,
) -> Scope:
    scope = Scope(organisation_id, new_id("acc"), mode)
    account = Account(scope, kind, f"{kind} {mode}", currency, beneficiary, method, now, auto_advance=auto_advance)
    await open_account(tx, account, actor=TESTER)
    return scope
