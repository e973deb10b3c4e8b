"""The fifty organisations of all benchmarks: each has an account, a key and an estimate. They share one catalogue."""

import hashlib
from dataclasses import dataclass
from decimal import Decimal

from tonne.accounts.api_keys import issue_key
from tonne.accounts.model import Account, AccountKind, PaymentMethod
from tonne.accounts.open_account import open_account
from tonne.accounts.open_organisation import DEFAULT_FEE_RATE, open_organisation
from tonne.base.clock import utc_now
from tonne.base.ids import new_id
from tonne.base.mass import MassUnit, to_grams
from tonne.base.scope import Mode, Scope
from tonne.catalog.demo import demo_files
from tonne.db.pool import Connection
from tonne.estimates.model import Estimate
from tonne.estimates.store import insert_estimate
from tonne.retirements.import_lots import import_files

ORGANISATIONS = 50
MODE = Mode.TEST
_ACTOR = "bench"
_CURRENCY = "EUR"
_MASS_T = "1.105697"


@dataclass(frozen=True, slots=True)
class Tenant:
    scope: Scope
    key: str
    estimate_id: str


async def open_tenants(tx: Connection) -> list[Tenant]:
    """All tenants order the same mass in the same currency, so that all orders have the same size."""
    await import_files(tx, MODE, demo_files(MODE), currency=_CURRENCY, now=utc_now())
    return [await _open_tenant(tx, number) for number in range(ORGANISATIONS)]


async def _open_tenant(tx: Connection, number: int) -> Tenant:
    now = utc_now()
    organisation = await open_organisation(tx, f"Bench {number}", DEFAULT_FEE_RATE, actor=_ACTOR, now=now)
    scope = Scope(organisation.id, new_id("acc"), MODE)
    account = Account(scope, AccountKind.ACCOUNT, "Bench", _CURRENCY, "Bench", PaymentMethod.INVOICE, now)
    await open_account(tx, account, actor=_ACTOR)
    _, secret = await issue_key(tx, scope, "bench", actor=_ACTOR, now=now)
    estimate = Estimate(
        scope=scope,
        id=new_id("est"),
        idempotency_key="bench",
        mass_grams=to_grams(Decimal(_MASS_T), MassUnit.T),
        mass_amount=_MASS_T,
        mass_unit=MassUnit.T,
        description=None,
        metadata="{}",
        created_at=now,
    )
    await insert_estimate(tx, estimate, hashlib.sha256(b"bench").digest())
    return Tenant(scope, secret, estimate.id)
