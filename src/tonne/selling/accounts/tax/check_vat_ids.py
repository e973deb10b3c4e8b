"""Ask the register about the VAT ids of organisations that are not charged tax: a job of the worker."""

import asyncio
from datetime import datetime, timedelta
from typing import ClassVar

from tonne.platform.db.batches import RowJobWithSettings
from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import Actor, ActorKind
from tonne.selling.accounts.tax.vat_checks import (
    VatOutcome,
    VatRegister,
    VatSource,
    find_vat_check,
    insert_vat_check,
    is_checked,
    vat_check_of,
)

# A check is renewed this long before it is too old, so that a register that is down for a day delays nothing.
RENEW_BEFORE = timedelta(days=5)
# A number that is registered just now is invalid until the register knows it.
INVALID_RETRY = timedelta(days=1)
UNAVAILABLE_RETRY = timedelta(minutes=15)
BATCH = 20
_BY = Actor(ActorKind.SYSTEM, "check_vat_ids")

LIST_DUE = """
SELECT DISTINCT profile.tax_id FROM tax_profiles profile
LEFT JOIN LATERAL (SELECT outcome, checked_at FROM vat_checks WHERE vat_id = profile.tax_id
                   ORDER BY checked_at DESC, id DESC LIMIT 1) AS last ON true
WHERE coalesce(profile.treatment, $1) = 'reverse_charge' AND profile.tax_id IS NOT NULL
  AND (last.outcome IS NULL OR last.outcome = 'valid' AND last.checked_at < $2
       OR last.outcome = 'invalid' AND last.checked_at < $3 OR last.outcome = 'unavailable' AND last.checked_at < $4)
ORDER BY profile.tax_id
"""


async def list_due_vat_ids_any_account(
    connection: Connection, treatment: TaxTreatment, now: datetime, max_age: timedelta
) -> list[str]:
    """The VAT ids of the EU that are to be checked. `treatment` is that of organisations without one of their own."""
    valid_before = now - max(max_age - RENEW_BEFORE, timedelta(days=1))
    times = (valid_before, now - INVALID_RETRY, now - UNAVAILABLE_RETRY)
    rows = await connection.fetch(LIST_DUE, treatment, *times)
    return [row["tax_id"] for row in rows if is_checked(row["tax_id"])]


class CheckVatIds(RowJobWithSettings, frozen=True):
    """Without a register, people record what they have read: `tonne tax vat-check record`."""

    register: VatRegister | None
    # Our own VAT id.
    requester: str | None
    EVERY_S: ClassVar[int] = 60

    async def run_once(self) -> bool:
        """Check a batch of VAT ids; false if none is due. No transaction is open while the register is asked."""
        if self.register is None:
            return False
        max_age = timedelta(days=self.settings.vat_check_max_age_days)
        treatment = self.settings.seller_tax.treatment
        due = await self.database.run(list_due_vat_ids_any_account, treatment, self.clock(), max_age)
        await asyncio.gather(*(self._check(self.register, vat_id) for vat_id in due[:BATCH]))
        return bool(due)

    async def confirm(self, vat_id: str) -> bool:
        """Whether a register has confirmed a VAT id that is needed now. It is asked unless its answer is known."""
        if await self.is_confirmed(vat_id):
            return True
        check = await self.database.run(find_vat_check, vat_id)
        is_refused = check is not None and check.outcome is VatOutcome.INVALID
        if (
            self.register is None
            or not is_checked(vat_id)
            or (is_refused and check is not None and self.clock() - check.checked_at < INVALID_RETRY)
        ):
            return False
        await self._check(self.register, vat_id)
        return await self.is_confirmed(vat_id)

    async def is_confirmed(self, vat_id: str) -> bool:
        """Without asking."""
        check = await self.database.run(find_vat_check, vat_id)
        return check is not None and check.proves(self.clock(), self.settings.vat_check_max_age_days)

    async def _check(self, register: VatRegister, vat_id: str) -> None:
        answer = await register.check(vat_id, self.requester)
        check = vat_check_of(vat_id, self.requester, answer, VatSource.VIES, by=_BY.at(self.clock()))
        await self.database.commit(insert_vat_check, check)
