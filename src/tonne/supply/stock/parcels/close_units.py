"""Close pooled units that have waited long enough for more fractions of their account."""

from collections.abc import Sequence

import asyncpg

from tonne.platform.db.batches import RETRY_AFTER, RowJobWithSettings, run_claimed
from tonne.platform.db.database import Connection

BATCH = 1000

CLAIM_UNITS = """
SELECT mode, id FROM parcels WHERE status = 'open' AND close_at <= $1
ORDER BY close_at LIMIT $2 FOR UPDATE SKIP LOCKED
"""
# The rest of a closed unit is in the service's name, and serves fractions of any account.
CLOSE_UNITS = """
UPDATE parcels SET status = 'to_retire', close_at = NULL, closed_at = $4, account_id = NULL, in_service_name = true,
                   beneficiary = $3
FROM unnest($1::text[], $2::text[]) AS keys (mode, id)
WHERE parcels.mode = keys.mode AND parcels.id = keys.id
"""
POSTPONE_UNITS = """
UPDATE parcels SET close_at = $3 FROM unnest($1::text[], $2::text[]) AS keys (mode, id)
WHERE parcels.mode = keys.mode AND parcels.id = keys.id AND parcels.status = 'open'
"""


class CloseUnits(RowJobWithSettings, frozen=True):
    """A job of the worker: puts open units whose waiting time is over on the work list."""

    async def run_once(self) -> bool:
        """Close a batch; false if none is due."""
        return await run_claimed(
            self.database,
            self._claim,
            self._close_any_account,
            self._postpone,
            limit=BATCH,
            failure_event="unit_not_closed",
            describe=lambda unit: {"parcel_id": unit["id"]},
        )

    async def _claim(self, tx: Connection, limit: int) -> Sequence[asyncpg.Record]:
        return await tx.fetch(CLAIM_UNITS, self.clock(), limit)

    async def _close_any_account(self, tx: Connection, units: Sequence[asyncpg.Record]) -> None:
        await tx.execute(CLOSE_UNITS, *_keys(units), self.settings.seller_name, self.clock())

    async def _postpone(self, tx: Connection, units: Sequence[asyncpg.Record]) -> None:
        await tx.execute(POSTPONE_UNITS, *_keys(units), self.clock() + RETRY_AFTER)


def _keys(units: Sequence[asyncpg.Record]) -> tuple[list[str], list[str]]:
    return [unit["mode"] for unit in units], [unit["id"] for unit in units]
