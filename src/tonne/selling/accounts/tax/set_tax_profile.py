"""Change the tax profile of an organisation. Recorded in the audit log."""

from datetime import datetime
from typing import Any

from msgspec.structs import asdict

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import Actor
from tonne.platform.values.replace import replace
from tonne.selling.accounts import store
from tonne.selling.accounts.lookup import require_organisation
from tonne.selling.accounts.tax.store import find_tax_profile, save_tax_profile
from tonne.selling.accounts.tax.tax_profile import TaxProfile, check_tax_profile


async def read_tax_profile(connection: Connection, organisation_id: str) -> TaxProfile:
    """Raises OrganisationNotFound."""
    await require_organisation(connection, organisation_id)
    return await find_tax_profile(connection, organisation_id)


async def set_tax_profile(
    tx: Connection, organisation_id: str, changes: dict[str, Any], *, actor: Actor, now: datetime
) -> TaxProfile:
    """Change the given fields; None clears one. Orders that have a price keep their tax.

    A change of the treatment clears the rate unless `changes` has one, because only `standard` has a rate.
    """
    await store.lock_organisation(tx, organisation_id)
    old = await read_tax_profile(tx, organisation_id)
    if changes.get("treatment", TaxTreatment.STANDARD) is not TaxTreatment.STANDARD:
        changes = {"rate": None, **changes}
    new = check_tax_profile(replace(old, **changes))
    await save_tax_profile(tx, organisation_id, new)
    action, before, after = "organisation.tax_set", _audited(old), _audited(new)
    await audit.record(tx, organisation_id, action, actor=actor, at=now, before=before, after=after)
    return new


def _audited(profile: TaxProfile) -> dict[str, Any]:
    rate = None if profile.rate is None else str(profile.rate.normalize())
    return asdict(profile) | {"rate": rate}
