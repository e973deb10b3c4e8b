"""Compare what registries show with the books, lot by lot. Only lots that differ pause."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import ClassVar

import structlog

from tonne.platform.db.database import Connection, Database
from tonne.platform.events.audit import record as audit
from tonne.platform.process.telemetry.instruments import Combine, GaugeFamily, Metric
from tonne.platform.values.context import By, Clock, job_actor
from tonne.supply.registries import account_store
from tonne.supply.registries.account_store import AccountState, Drift, LotBooks, Resolution
from tonne.supply.registries.gateway import Holding, NotRead, RegistryAccount, RegistryAccounts
from tonne.supply.stock.parcels.instructed_parcels import pause_lot, resume_lot

ACTOR = job_actor("check_registries")
# A difference is confirmed by the second look.
LOOK_EVERY = timedelta(minutes=5)

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
            gauge("last_look_seconds", "Time since the registry was compared.", lambda a: age(a.looked_at)),
        )

    async def run_once(self) -> bool:
        """False if no account was due."""
        due = await self._database.commit(self._claim)
        for registry_account in due:
            await self.check(self._accounts[registry_account])
        self._states = await self._database.run(account_store.list_accounts)
        return bool(due)

    async def _claim(self, tx: Connection) -> list[str]:
        return await account_store.claim_accounts(tx, self._accounts.keys(), self._clock(), LOOK_EVERY)

    async def check(self, account: RegistryAccount) -> list[Drift]:
        """Look once; returns the drifts that this look has confirmed."""
        began = self._clock()
        try:
            holdings = await account.gateway.list_holdings()
        except NotRead as error:
            _log.warning("registry_not_read", registry_account=account.id, reason=str(error))
            await self._database.commit(account_store.note_problem, account.id, str(error)[:500])
            return []
        return await self._database.commit(self._compare, account, holdings, began)

    async def _compare(
        self, tx: Connection, account: RegistryAccount, holdings: Sequence[Holding], began: datetime
    ) -> list[Drift]:
        books = await account_store.read_books_any_account(tx, account.mode, account.id, began)
        differences = compare(books, holdings)
        now = self._clock()
        noted = await account_store.note_drifts(tx, account.mode, account.id, differences, now)
        still = [each.lot_id for each in books if each.lot_id not in differences and not each.is_moving]
        await account_store.forget_drifts(tx, account.id, still)
        await account_store.note_look(tx, account.id, now, *_balances(books, holdings))
        confirmed = [each for each in noted if each.confirmed_at == now]
        for drift in confirmed:
            await self._pause(tx, drift, now)
        return confirmed

    async def _pause(self, tx: Connection, drift: Drift, now: datetime) -> None:
        what = "fewer" if drift.units > 0 else "more"
        reason = f"{drift.registry_account} has {abs(drift.units)} units {what} than the books."
        await pause_lot(tx, drift.lot_id, reason, now)
        _log.error("registry_drift", drift_id=drift.id, lot_id=drift.lot_id, units=drift.units)
        by = ACTOR.at(now)
        await audit.record(tx, None, "lot.paused", by=by, subject_id=drift.lot_id, mode=drift.mode, reason=reason)


def compare(books: Sequence[LotBooks], holdings: Sequence[Holding]) -> dict[str, int]:
    """The units that lots have here and not there. An open request explains exactly its units."""
    there: Counter[str] = Counter()
    for holding in holdings:
        there[holding.id] += holding.unit_count
    found = {
        lot.lot_id: lot.here_units - there[lot.holding_id] - lot.explained_units for lot in books if not lot.is_moving
    }
    asked: Mapping[str, int] = {lot.lot_id: lot.asked_units for lot in books}
    return {lot_id: units for lot_id, units in found.items() if units not in {0, asked[lot_id]}}


def _balances(books: Sequence[LotBooks], holdings: Sequence[Holding]) -> tuple[int, int]:
    """Grams here and there. All units of an account have one size."""
    unit_grams = max((lot.unit_grams for lot in books), default=0)
    here = sum(lot.here_units for lot in books) * unit_grams
    return here, sum(holding.unit_count for holding in holdings) * unit_grams


async def settle_lot(tx: Connection, lot_id: str, resolution: Resolution, *, reason: str, by: By) -> bool:
    """Resume a lot that is paused, and close its drift. False if it is not paused."""
    if not await resume_lot(tx, lot_id):
        return False
    drift_id = await account_store.close_drift(tx, lot_id, resolution, reason=reason, by=by)
    await audit.record(tx, None, "lot.resumed", by=by, subject_id=lot_id, reason=reason, drift=drift_id)
    return True
