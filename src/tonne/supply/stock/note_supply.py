"""A job: note once a day how much of each project was sold, so that the operator sees for how long supply lasts."""

from datetime import date, timedelta
from typing import ClassVar

from tonne.platform.db.batches import RowJob
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode

KEPT_DAYS = 180


class NoteSupply(RowJob, frozen=True):
    EVERY_S: ClassVar[int] = 300

    async def run_once(self) -> bool:
        today = self.clock().date()
        async with self.database.transaction() as tx:
            if await is_noted(tx, Mode.LIVE, today):
                return False
            await note_sold(tx, Mode.LIVE, today)
            await prune_days(tx, today - timedelta(days=KEPT_DAYS))
        return False


IS_NOTED = "SELECT EXISTS (SELECT FROM supply_days WHERE mode = $1 AND day = $2)"


async def is_noted(connection: Connection, mode: Mode, day: date) -> bool:
    return bool(await connection.fetchval(IS_NOTED, mode, day))


# `allocated_grams` of an invalid lot includes what no order holds.
NOTE_SOLD = """
INSERT INTO supply_days (mode, day, project_id, sold_grams)
SELECT mode, $2, project_id, sum(greatest(0, allocated_grams - invalid_grams)) FROM lots
WHERE mode = $1 GROUP BY mode, project_id
ON CONFLICT DO NOTHING
"""


async def note_sold(tx: Connection, mode: Mode, day: date) -> None:
    """Workers that do it at the same time write the same."""
    await tx.execute(NOTE_SOLD, mode, day)


PRUNE_DAYS = "DELETE FROM supply_days WHERE day < $1"


async def prune_days(tx: Connection, before: date) -> None:
    await tx.execute(PRUNE_DAYS, before)
