"""The fifty organisations of all benchmarks: each has an account, a key and an estimate. They share one catalogue."""

from dataclasses import dataclass
from decimal import Decimal

from tests.support.world import TESTER, open_tenant
from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import MassUnit
from tonne.platform.values.context import Mode, Scope, utc_now
from tonne.selling.accounts.organisations.change_organisation import DEFAULT_FEE_RATE, open_organisation
from tonne.selling.catalogue.demo import demo_files
from tonne.selling.estimates.record_estimate import record_estimate
from tonne.supply.stock.lots.import_lots import import_files

ORGANISATIONS = 50
MODE = Mode.TEST
MASS_GRAMS = 1_105_697


@dataclass(frozen=True, slots=True)
class Tenant:
    scope: Scope
    key: str
    estimate_id: str


async def open_tenants(tx: Connection) -> list[Tenant]:
    """All tenants order the same mass in the same currency, so that all orders have the same size."""
    await import_files(tx, MODE, demo_files(MODE), currency="EUR", by=TESTER.now())
    return [await _open_tenant(tx, number) for number in range(ORGANISATIONS)]


async def _open_tenant(tx: Connection, number: int) -> Tenant:
    now = utc_now()
    organisation = await open_organisation(tx, f"Bench {number}", DEFAULT_FEE_RATE, by=TESTER.at(now))
    tenant = await open_tenant(tx, organisation.id, MODE)
    estimate = await record_estimate(tx, tenant.scope, Decimal(MASS_GRAMS), MassUnit.G, None, now=now)
    return Tenant(tenant.scope, tenant.key, estimate.id)
