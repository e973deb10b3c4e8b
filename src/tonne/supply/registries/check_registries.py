"""Compare what registries show with the books, lot by lot. Only lots that differ pause."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import ClassVar

import structlog

from tonne.platform.db.database import Connection, Database
from tonne.platform.events.audit import record as audit
from tonne.platform.process.telemetry.instruments import Combine, GaugeFamily, Metric
from tonne.platform.values.context import By, Clock, Mode, job_actor
from tonne.supply.registries import account_store, drift_store
from tonne.supply.registries.account_store import AccountState
from tonne.supply.registries.compare_books import compare, expected_balance
from tonne.supply.registries.drift_store import ComparedAccount, Drift, OpenDrift, Resolution
from tonne.supply.registries.gateway import Holding, Movement, NotRead, RegistryAccount, RegistryAccounts
from tonne.supply.stock.parcels.instructed_parcels import connect_lots_any_account, pause_lot, resume_lot

ACTOR = job_actor("check_registries")
# A difference is confirmed by the second look.
LOOK_EVERY = timedelta(minutes=5)
# Differences that cancel each other in the balance are found by then.
COMPARE_EVERY = timedelta(days=1)
# A registry may list a movement late.
OVERLAP = timedelta(hours=1)

_log = structlog.get_logger()


class CheckRegistries:
    """A job of the worker."""

    EVERY_S: ClassVar[int] = 20

    def __init__(self, database: Database, clock: Clock, accounts: RegistryAccounts) -> None:
        self._database = database
        self._clock = clock
        self._accounts = accounts
        self._states: list[AccountState] = []

    @property
    def metrics(self) -> tuple[Metric, ...]:
        def age(moment: datetime | None) -> float:
            return 0.0 if moment is None else max(0.0, (self._clock() - moment).total_seconds())

        def last_look(account: AccountState) -> float:
            is_unread = account.looked_at is None and account.problem is not None
            return math.inf if is_unread else age(account.looked_at)

        def gauge(name: str, description: str, value: Callable[[AccountState], float]) -> GaugeFamily:
            return GaugeFamily(
                f"tonne_registry_{name}",
                description,
                "registry_account",
                read=lambda: [((each.id,), value(each)) for each in self._states],
                combine=Combine.MAX,
            )

        return (
            gauge("drift_grams", "Grams of lots whose registry contradicts the books.", lambda a: a.drift_grams),
            gauge("in_doubt_seconds", "Age of the oldest request without a result.", lambda a: age(a.asked_since)),
            gauge("last_look_seconds", "Time since the registry was compared.", last_look),
            gauge("stopped", "1 if nothing is asked until a look works.", lambda a: float(a.stopped_at is not None)),
            gauge("waiting_seconds", "How long credits wait for the registry.", lambda a: age(a.waiting_since)),
        )

    async def run_once(self) -> bool:
        """False if no account was due."""
        due = await self._database.commit(self._claim)
        for registry_account in due:
            await self.check(self._accounts[registry_account])
        self._states = await self._database.run(account_store.list_states_any_account)
        return bool(due)

    async def _claim(self, tx: Connection) -> list[str]:
        live = [each for each in self._accounts.values() if each.mode is Mode.LIVE]
        await account_store.save_accounts(tx, live)
        return await account_store.claim_accounts(tx, self._accounts.keys(), self._clock(), LOOK_EVERY)

    async def check(self, account: RegistryAccount) -> list[Drift]:
        """Look once; returns the drifts that this look has confirmed.

        The balance is enough while nothing is under way, and nothing has left the account without a request of ours.
        """
        began = self._clock()
        try:
            balance = await account.gateway.read_balance()
            movements = await account.gateway.list_movements(began - OVERLAP)
            if await self._database.commit(self._agrees, account, balance, movements, began):
                return []
            holdings = await account.gateway.list_holdings()
        except NotRead as error:
            _log.warning("registry_not_read", registry_account=account.id, reason=str(error))
            await self._database.commit(account_store.note_problem, account.id, str(error)[:500])
            return []
        return await self._database.commit(self._compare, account, holdings, movements, began)

    async def _agrees(
        self, tx: Connection, account: RegistryAccount, balance: int, movements: Sequence[Movement], began: datetime
    ) -> bool:
        [state] = [each for each in await account_store.list_states_any_account(tx) if each.id == account.id]
        if state.compared_at is None or began - state.compared_at >= COMPARE_EVERY or state.has_drift:
            return False
        if await account_store.find_unknown(tx, account.id, {each.reference for each in movements}):
            return False
        books = await account_store.read_books_any_account(tx, account.mode, account.id, began)
        explained = await drift_store.read_explained_surplus(tx, account.id)
        if expected_balance(books, explained) != balance:
            return False
        here = sum(lot.here_units for lot in books) * account.unit_grams
        there = balance * account.unit_grams
        await account_store.note_look(
            tx, account.id, self._clock(), here_grams=here, there_grams=there, is_compared=False
        )
        return True

    async def _compare(
        self,
        tx: Connection,
        account: RegistryAccount,
        holdings: Sequence[Holding],
        movements: Sequence[Movement],
        began: datetime,
    ) -> list[Drift]:
        await self._connect_lots(tx, account, holdings)
        now = self._clock()
        books = await account_store.read_books_any_account(tx, account.mode, account.id, began)
        explained = await drift_store.read_explained_surplus(tx, account.id)
        unknown = await account_store.find_unknown(tx, account.id, {each.reference for each in movements})
        foreign = {each.holding_id for each in movements if each.reference in unknown}
        seen = compare(books, holdings, explained, foreign)
        confirmed = await drift_store.note_drifts(tx, account, seen, now)
        moving = {each.lot_id for each in books if each.is_moving}
        await drift_store.forget_drifts(tx, account.id, {each.subject_id for each in seen} | moving)
        here = sum(lot.here_units for lot in books if not lot.is_invalid) * account.unit_grams
        there = sum(holding.unit_count for holding in holdings) * account.unit_grams
        # Lots are locked before the account, as by what books answers.
        await pause_differing(tx, account, confirmed, by=ACTOR.at(now))
        await account_store.note_look(tx, account.id, now, here_grams=here, there_grams=there, is_compared=True)
        return confirmed

    async def _connect_lots(self, tx: Connection, account: RegistryAccount, holdings: Sequence[Holding]) -> None:
        """Lots of a registry that does not know them: the serials say which holding has a lot's units."""
        known = [
            (each.id, each.namespace, each.units[0][0], each.units[-1][1], each.unit_count)
            for each in holdings
            if each.namespace
        ]
        if not known:
            return
        by = ACTOR.at(self._clock())
        for lot_id, holding_id in (await connect_lots_any_account(tx, account.mode, account.id, known)).items():
            mode = account.mode
            await audit.record(
                tx, None, "lot.connected", by=by, subject_id=lot_id, mode=mode, account=account.id, holding=holding_id
            )


async def pause_differing(tx: Connection, account: ComparedAccount, confirmed: Sequence[Drift], *, by: By) -> None:
    """The lots of these drifts."""
    for drift in confirmed:
        _log.error("registry_drift", drift_id=drift.id, units=drift.units, holding_id=drift.holding_id)
        count = abs(drift.units)
        units = f"{count} {'unit' if count == 1 else 'units'} {'fewer' if drift.units > 0 else 'more'}"
        if drift.lot_id is not None:
            await pause(tx, account.mode, drift.lot_id, f"{account.id} has {units} than the books.", by=by)


async def pause(tx: Connection, mode: Mode, lot_id: str, reason: str, *, by: By) -> None:
    """Nothing is allocated from the lot, or asked for, until a person settles the difference."""
    if await pause_lot(tx, lot_id, reason, by.at):
        await audit.record(tx, None, "lot.paused", by=by, subject_id=lot_id, mode=mode, reason=reason)


async def settle_drift(tx: Connection, drift: OpenDrift, resolution: Resolution, *, reason: str, by: By) -> None:
    """Close it, and resume its lot."""
    await drift_store.close_drift(tx, drift.id, resolution, reason=reason, by=by)
    is_resumed = drift.lot_id is not None and await resume_lot(tx, drift.lot_id)
    action = "lot.resumed" if is_resumed else "registry_drift.settled"
    subject_id = drift.lot_id if is_resumed else drift.id
    await audit.record(
        tx, None, action, by=by, subject_id=subject_id, reason=reason, drift=drift.id, resolution=str(resolution)
    )
