"""Requests for a new password. Pages only record them, which takes the same time for every address; a job looks it up.

So nobody can learn from the answer, or from its time, who has an account.
"""

from datetime import datetime, timedelta

import asyncpg

from tonne.platform.db.database import Connection, Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock
from tonne.selling.users import link_store, store
from tonne.selling.users.links import send_password_reset

# Mails to one user, whoever asks: further requests of the hour are dropped, and the links that were sent still work.
LINKS_PER_HOUR = 3
BATCH_ROWS = 20


class MailPasswordLinks:
    def __init__(self, database: Database, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings

    async def run_once(self) -> bool:
        """Answer one batch. Whether there was a request."""
        async with self._database.transaction() as tx:
            rows = await take_requests(tx, BATCH_ROWS)
            for row in rows:
                await self._answer(tx, row["email"], row["created_by"])
        return bool(rows)

    async def _answer(self, tx: Connection, email: str, asked_by: str) -> None:
        now, found = self._clock(), await store.find_user_by_email(tx, email)
        if found is None or found[0].disabled_at is not None:
            return
        recent = await link_store.count_password_links(tx, found[0].id, now - timedelta(hours=1))
        if recent < LINKS_PER_HOUR:
            await send_password_reset(tx, self._settings, found[0].email, actor_name=asked_by, now=now)


INSERT_REQUEST = "INSERT INTO password_requests (email, created_by, created_at) VALUES ($1, $2, $3)"


async def insert_request(connection: Connection, email: str, asked_by: str, now: datetime) -> None:
    await connection.execute(INSERT_REQUEST, email, asked_by, now)


TAKE_REQUESTS = """
DELETE FROM password_requests
WHERE id IN (SELECT id FROM password_requests ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)
RETURNING email, created_by
"""


async def take_requests(tx: Connection, limit: int) -> list[asyncpg.Record]:
    return await tx.fetch(TAKE_REQUESTS, limit)
