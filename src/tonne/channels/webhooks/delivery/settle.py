"""Record the result of a request: cursor, back-off and attempt change together, and only under a valid lease."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import asyncpg
import structlog

from tonne.channels.webhooks import attempt_store
from tonne.channels.webhooks.delivery import alerts, claim, parked_store
from tonne.channels.webhooks.delivery.acknowledge import RENEWED, Acknowledgement, Acknowledgements, acknowledge
from tonne.channels.webhooks.delivery.alerts import disable_gone
from tonne.channels.webhooks.delivery.kept_leases import KeptLeases
from tonne.channels.webhooks.delivery.metrics import DeliveryMetrics
from tonne.channels.webhooks.delivery.outcomes import Delivered, Gone, NotSigned, RefusedAccount, Retry, SendOutcome
from tonne.channels.webhooks.delivery.schedule import pause_after
from tonne.channels.webhooks.model import EventBatch, Lease, ParkedAccount
from tonne.platform.db.database import Connection, Database
from tonne.platform.db.errors import is_database_unavailable, log_outage
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import new_id, replace

_log = structlog.get_logger()
# The main stream waits for requests of parked accounts. After a slow refusal, no parked account is due for this many
# times the duration of that request, so that the main stream keeps most of the time.
SLOW_MS = 1000
QUIET_PER_SLOW_REQUEST = 4
# Between attempts to settle while the database is unavailable.
FIRST_PAUSE_S = 0.05
MAX_PAUSE_S = 1.0

T = TypeVar("T")


class Settlement:
    """Every method returns the renewed lease if another request may follow at once, and None otherwise."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        metrics: DeliveryMetrics,
        kept: KeptLeases,
        due_in: Callable[[timedelta], None],
    ) -> None:
        """`due_in` is called with the time after which a refused webhook is due again."""
        self._database = database
        self._metrics = metrics
        self._settings = settings
        self._lease_s = settings.webhook_lease_s
        self._kept = kept
        self._acknowledgements = Acknowledgements(database, self._lease_s)
        self._due_in = due_in

    async def settle(
        self, lease: Lease, batch: EventBatch, outcome: SendOutcome, *, release: bool = False
    ) -> Lease | None:
        """Settle a batch of the main stream.

        With `release`, the lease ends or is kept if nothing else waits; the returned lease says so.
        """

        async def settle(attempt_id: str) -> Lease | None:
            if isinstance(outcome, Delivered):
                expires_at = time.monotonic() + self._lease_s
                keeper = self._kept.keeper_for(lease)
                done = Acknowledgement.of(lease, batch, outcome, attempt_id, release=release, keeper=keeper)
                row = await self._acknowledgements.write(done)
                if row is None:
                    return self._lost()
                return _renewed_by(row, lease, expires_at) or await self.renew(lease)
            pause = self._pause(lease.failures + 1, outcome)
            async with self._database.transaction() as tx:
                if not await _refuse(tx, lease, batch, outcome, pause, attempt_id=attempt_id):
                    return self._lost()
                await self._disable_or_alert(tx, lease, outcome)
            return None

        return await self._once(lease, settle)

    async def park(
        self, lease: Lease, probe: EventBatch, outcome: Delivered, refused: Sequence[RefusedAccount]
    ) -> Lease | None:
        """Settle an accepted probe: the accounts that were refused before it are parked."""
        [position] = probe.positions

        async def settle(attempt_id: str) -> Lease | None:
            async with self._database.transaction() as tx:
                if not await claim.lock_lease(tx, lease):
                    return self._lost()
                for account in refused:
                    await parked_store.park(tx, lease, account, self._pause(account.refusals))
                # An event that the cursor does not reach is sent again in order.
                await _keep_accepted_probe(tx, lease, position if probe.reaches < position else None)
                expires_at = time.monotonic() + self._lease_s
                row = await acknowledge(tx, Acknowledgement.of(lease, probe, outcome, attempt_id), self._lease_s)
            for account in refused:
                self._metrics.parked.inc(lease.mode)
                _log.warning(
                    "account_parked", webhook_id=lease.id, account_id=account.account_id, position=account.position
                )
            return None if row is None else _renewed_by(row, lease, expires_at)

        return await self._once(lease, settle)

    async def record_refusal(self, lease: Lease, batch: EventBatch, outcome: Retry) -> Lease | None:
        """Record a refusal after which the turn continues."""

        async def settle(attempt_id: str) -> Lease | None:
            async with self._database.transaction() as tx:
                if not await claim.lock_lease(tx, lease):
                    return self._lost()
                await attempt_store.record_attempt(tx, lease, batch, outcome, attempt_id)
                return await claim.renew(tx, lease, self._lease_s)

        return await self._once(lease, settle)

    async def settle_probes(
        self, lease: Lease, batch: EventBatch, outcome: Retry, *, probe_after: int, soon: bool
    ) -> None:
        """Settle the last request of a turn in which no event was accepted.

        With `soon`, the next turn follows after the shortest pause, and the back-off does not grow.
        """

        async def settle(attempt_id: str) -> Lease | None:
            pause = self._pause(1 if soon else lease.failures + 1, outcome)
            async with self._database.transaction() as tx:
                if not await _refuse(tx, lease, batch, outcome, pause, attempt_id=attempt_id):
                    return self._lost()
                await _continue_probing(tx, lease, probe_after, lease.failures if soon else lease.failures + 1)
                await self._disable_or_alert(tx, lease, outcome)
            return None

        await self._once(lease, settle)

    async def settle_parked(
        self, lease: Lease, account: ParkedAccount, batch: EventBatch, outcome: SendOutcome
    ) -> Lease | None:
        """Settle a batch of a parked account."""

        async def settle(attempt_id: str) -> Lease | None:
            async with self._database.transaction() as tx:
                if not await claim.lock_lease(tx, lease):
                    return self._lost()
                await attempt_store.record_attempt(tx, lease, batch, outcome, attempt_id)
                if isinstance(outcome, Delivered):
                    await parked_store.advance_parked(tx, lease, account.account_id, batch.positions[-1])
                else:
                    pause = self._pause(account.refusals + 1, outcome)
                    await parked_store.refuse_parked(tx, lease, account.account_id, pause)
                    if outcome.ends_turn:
                        # The receiver does not want the events of the others, either.
                        await parked_store.postpone(tx, lease, pause)
                        await _postpone_main(tx, lease, pause)
                        if await self._disable_if_gone(tx, lease, outcome):
                            return None
                    if outcome.duration_ms >= SLOW_MS:
                        quiet = timedelta(milliseconds=outcome.duration_ms * QUIET_PER_SLOW_REQUEST)
                        await parked_store.postpone(tx, lease, quiet)
                    await alerts.alert_parked_if_due(tx, lease, account.account_id, outcome, self._settings)
                return await claim.renew(tx, lease, self._lease_s)

        return await self._once(lease, settle)

    async def pass_over(self, lease: Lease, reaches: int) -> Lease | None:
        """Move the cursor past positions without an event in scope."""

        async def move() -> Lease | None:
            async with self._database.connection() as connection:
                await _move_cursor(connection, lease, reaches)
                return await claim.renew(connection, lease, self._lease_s)

        return await retry_until(lease.expires_at, move)

    async def renew(self, lease: Lease) -> Lease | None:
        """None when the lease is lost or the webhook is not in use."""
        return await self._database.run(claim.renew, lease, self._lease_s)

    async def release(self, lease: Lease) -> bool:
        """True when more events are due now."""

        async def release() -> bool:
            return await self._database.run(claim.release, lease)

        # Not `lease.expires_at`: the lease may have been renewed since.
        return await retry_until(time.monotonic() + self._lease_s, release)

    async def _once(self, lease: Lease, settle: Callable[[str], Awaitable[Lease | None]]) -> Lease | None:
        """Retry while the database is unavailable, without recording the attempt twice."""
        attempt_id = new_id("att")

        async def settle_again() -> Lease | None:
            async with self._database.connection() as connection:
                if await attempt_store.is_recorded(connection, lease, attempt_id):
                    return await claim.renew(connection, lease, self._lease_s)
            return await settle(attempt_id)

        return await retry_until(lease.expires_at, lambda: settle(attempt_id), settle_again)

    def _lost(self) -> Lease | None:
        """The result of the request is discarded, and its events are sent again."""
        self._metrics.leases_lost.inc("superseded")
        return None

    def _pause(self, failures: int, outcome: Retry | None = None) -> timedelta:
        asked_s = 0.0 if outcome is None else outcome.retry_after_s
        pause = pause_after(failures, self._settings.webhook_time_scale, asked_s)
        self._due_in(pause)
        return pause

    async def _disable_or_alert(self, tx: Connection, lease: Lease, outcome: Retry) -> None:
        if not await self._disable_if_gone(tx, lease, outcome):
            await alerts.alert_if_due(tx, lease, outcome, self._settings)

    async def _disable_if_gone(self, tx: Connection, lease: Lease, outcome: Retry) -> bool:
        """After 410, unless the registration was changed meanwhile: the answer is about the former address."""
        return isinstance(outcome, Gone) and await disable_gone(tx, lease, self._settings)


async def retry_until(
    expires_at: float, run: Callable[[], Awaitable[T]], run_again: Callable[[], Awaitable[T]] | None = None
) -> T:
    """Retry while the database is unavailable, until `expires_at` on the monotonic clock: the end of the lease.

    Then another worker may claim the webhook, so there is nothing left to save. `run_again` replaces `run` in retries:
    the first transaction may have committed although its response was lost.
    """
    pause_s = FIRST_PAUSE_S
    attempt = run
    while True:
        try:
            return await attempt()
        except Exception as error:
            if not is_database_unavailable(error) or time.monotonic() + pause_s > expires_at:
                raise
            log_outage(error)
        await asyncio.sleep(pause_s)
        pause_s = min(MAX_PAUSE_S, pause_s * 2)
        attempt = run_again or run


_AFTER_ACKNOWLEDGEMENT: dict[str, Any] = {"failures": 0, "head_refusals": 0, "probe_after": None, "main_due": True}


def _renewed_by(row: asyncpg.Record, lease: Lease, expires_at: float) -> Lease | None:
    """The lease as an acknowledgement left it; None if the registration has changed and must be read again."""
    _, version, *changed = row.values()
    if version != lease.version:
        return None
    renewed: dict[str, Any] = dict(zip(RENEWED, changed, strict=True))
    return replace(lease, **_AFTER_ACKNOWLEDGEMENT, **renewed, expires_at=expires_at, first_batch=None)


REFUSE = f"""
WITH settled AS (
    UPDATE webhooks
    SET batch_limit = 1, refused_count = refused_count + 1,
        failures = failures + 1, failing_since = coalesce(failing_since, clock_timestamp()),
        -- After a change of the registration another event may be first.
        head_refusals = head_refusals + CASE WHEN version = $4 THEN $5::integer ELSE 0 END,
        next_attempt_at = CASE WHEN version = $4 THEN clock_timestamp() + $6::interval ELSE next_attempt_at END
    WHERE organisation_id = $1 AND id = $2 AND lease_token = $3
    RETURNING organisation_id, id
)
INSERT INTO webhook_attempts ({attempt_store.COLUMNS})
SELECT organisation_id, id, $7, date_trunc('milliseconds', clock_timestamp()), $8, false, $9, $10, $11, $12 FROM settled
"""  # noqa: S608 - only the constant is inserted


async def _refuse(
    tx: Connection, lease: Lease, batch: EventBatch, outcome: Retry, pause: timedelta, *, attempt_id: str
) -> bool:
    """False when the lease is lost."""
    attempt = (attempt_id, list(batch.positions), *outcome.recorded)
    refused_alone = batch.is_head_alone and not isinstance(outcome, NotSigned)
    return await tx.execute(REFUSE, *lease.fence, int(refused_alone), pause, *attempt) == "INSERT 0 1"


CONTINUE_PROBING = """
UPDATE webhooks SET probe_after = $4, accepted_probe = NULL, failures = greatest(1, $5::integer)
WHERE organisation_id = $1 AND id = $2 AND lease_token = $3
"""


async def _continue_probing(tx: Connection, lease: Lease, probe_after: int, failures: int) -> None:
    await tx.execute(CONTINUE_PROBING, lease.organisation_id, lease.id, lease.token, probe_after, failures)


KEEP_ACCEPTED_PROBE = """
UPDATE webhooks SET accepted_probe = $4 WHERE organisation_id = $1 AND id = $2 AND lease_token = $3
"""


async def _keep_accepted_probe(tx: Connection, lease: Lease, position: int | None) -> None:
    await tx.execute(KEEP_ACCEPTED_PROBE, lease.organisation_id, lease.id, lease.token, position)


POSTPONE_MAIN = """
UPDATE webhooks SET next_attempt_at = greatest(next_attempt_at, clock_timestamp() + $5::interval)
WHERE organisation_id = $1 AND id = $2 AND lease_token = $3 AND version = $4
"""


async def _postpone_main(tx: Connection, lease: Lease, pause: timedelta) -> None:
    await tx.execute(POSTPONE_MAIN, *lease.fence, pause)


MOVE_CURSOR = """
UPDATE webhooks SET cursor_position = greatest(cursor_position, $5)
WHERE organisation_id = $1 AND id = $2 AND lease_token = $3 AND version = $4 AND cursor_position >= $6
"""


async def _move_cursor(connection: Connection, lease: Lease, reaches: int) -> None:
    await connection.execute(MOVE_CURSOR, *lease.fence, reaches, lease.cursor_position)
