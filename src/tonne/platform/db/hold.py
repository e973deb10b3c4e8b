"""The hold: while the service is held, nothing leaves it and no number is taken. A restored database starts held.

The row in the database is what counts. Processes read it every second; triggers refuse charges, refunds and numbers at
once, for commands too.
"""

import asyncio
from datetime import datetime

import structlog
from msgspec import Struct

from tonne.platform.db.database import Connection, Database
from tonne.platform.db.errors import DATABASE_ERRORS, ServiceHeld
from tonne.platform.db.queues import WaitingCheck
from tonne.platform.process.telemetry.instruments import Combine, GaugeFamily, Metric
from tonne.platform.values.context import Actor

READ_EVERY_S = 1.0

_log = structlog.get_logger()


class ServiceHold(Struct, frozen=True):
    held_at: datetime
    held_by: str
    reason: str


READ_HOLD = "SELECT held_at, held_by, reason FROM service_holds"


async def read_hold(connection: Connection) -> ServiceHold | None:
    row = await connection.fetchrow(READ_HOLD)
    return None if row is None else ServiceHold(row["held_at"], row["held_by"], row["reason"])


async def require_not_held(connection: Connection) -> None:
    """Raises ServiceHeld. For commands that call another service."""
    if await read_hold(connection) is not None:
        raise ServiceHeld


SET_HOLD = "INSERT INTO service_holds (held_at, held_by, reason) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"


async def set_hold(tx: Connection, reason: str, *, actor: Actor, at: datetime) -> bool:
    """False if the service is held already: that hold stays as it is."""
    return bool(await tx.execute(SET_HOLD, at, str(actor), reason) != "INSERT 0 0")


END_HOLD = "DELETE FROM service_holds RETURNING held_at, held_by, reason"


async def end_hold(tx: Connection) -> ServiceHold | None:
    """The hold that ended. None if the service was not held."""
    row = await tx.fetchrow(END_HOLD)
    return None if row is None else ServiceHold(row["held_at"], row["held_by"], row["reason"])


class HoldWatch:
    """Whether the service is held, as last read from the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.is_held = False

    @property
    def metrics(self) -> tuple[Metric, ...]:
        held = GaugeFamily(
            "tonne_held",
            "1 while the service is held.",
            read=lambda: [((), 1.0 if self.is_held else 0.0)],
            combine=Combine.MAX,
        )
        return (held,)

    def require_not_held(self) -> None:
        """Raises ServiceHeld."""
        if self.is_held:
            raise ServiceHeld

    async def refresh(self) -> None:
        hold = await self._database.run(read_hold)
        was_held, self.is_held = self.is_held, hold is not None
        if hold is not None and not was_held:
            _log.warning("service_held", since=hold.held_at.isoformat(), reason=hold.reason)
        elif was_held and hold is None:
            _log.warning("service_resumed")

    async def watch(self) -> None:
        """Read again and again, until cancelled. While the database is unavailable, the last state stays."""
        while True:
            try:
                await self.refresh()
            except DATABASE_ERRORS as error:
                _log.debug("hold_not_read", error=repr(error))
            await asyncio.sleep(READ_EVERY_S)


WAITING = (
    WaitingCheck(
        "the service is not held",
        "It answers reads only: no order is placed, charged or invoiced, and no webhook or mail is sent.",
        "Run `tonne resume`: it shows what would be sent, and asks before it ends the hold.",
        """
        SELECT format('held since %s by %s: %s', to_char(held_at, 'YYYY-MM-DD HH24:MI'), held_by, reason) AS "where"
        FROM service_holds
        """,
        lambda _settings, _now: (),
    ),
)
