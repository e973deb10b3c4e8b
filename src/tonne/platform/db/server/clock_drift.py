"""Compares the clock of this process with the database's. Due times, leases and event sequences use both.

The `sequence` of an event is no measure of drift: it rises by at least 1 ms per event, so that of a busy stream may be
ahead of every clock.
"""

import time
from collections.abc import Callable

import structlog

from tonne.platform.db.database import Connection, Database
from tonne.platform.db.errors import repeat
from tonne.platform.db.queues import WaitingCheck
from tonne.platform.process.telemetry.instruments import Combine, GaugeFamily, Metric
from tonne.platform.values.context import utc_now

# Far below the shortest lease that a process sets by its own clock, which is two minutes.
MAX_DRIFT_S = 5.0
MEASURE_EVERY_S = 15.0

_log = structlog.get_logger()

READ_CLOCK = "SELECT extract(epoch FROM clock_timestamp())::float8"


async def measure_drift(connection: Connection, wall_clock: Callable[[], float] = time.time) -> float:
    """Seconds by which this process is ahead; negative if it is behind.

    The database reads its clock at some time between the request and the response. Only what cannot be explained by
    that time counts, so a slow response is no drift.
    """
    before = wall_clock()
    at: float = await connection.fetchval(READ_CLOCK)
    return max(0.0, before - at) or min(0.0, wall_clock() - at)


class ClockDrift:
    def __init__(self, database: Database, wall_clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._wall_clock = wall_clock
        self._drift_s = 0.0

    @property
    def metrics(self) -> tuple[Metric, ...]:
        drift = GaugeFamily(
            "tonne_clock_drift_seconds",
            "Difference between the clocks of the process and the database, without its sign.",
            read=lambda: [((), abs(self._drift_s))],
            combine=Combine.MAX,
        )
        return (drift,)

    async def measure(self) -> None:
        drift_s = await self._database.run(measure_drift, self._wall_clock)
        was_large, self._drift_s = abs(self._drift_s) > MAX_DRIFT_S, drift_s
        if abs(drift_s) > MAX_DRIFT_S and not was_large:
            _log.warning("clock_drift", seconds_ahead=round(drift_s, 3))

    async def watch(self) -> None:
        """Measure again and again, until cancelled."""
        await repeat(self.measure, MEASURE_EVERY_S, "clock_drift_not_measured")


WAITING = (
    WaitingCheck(
        "this machine and the database have the same time",
        f"Their clocks differ by more than {MAX_DRIFT_S:g} s. Due work starts early or late, and times on orders, "
        "invoices and events are wrong. With minutes of difference, two workers may process the same row.",
        "Synchronise the clocks of all machines (NTP), then run `tonne check` on each. The metric "
        "`tonne_clock_drift_seconds` shows the difference of every process.",
        f"""
        SELECT format('this machine is %s s %s the database', round(abs(seconds)::numeric, 1),
                      CASE WHEN seconds > 0 THEN 'ahead of' ELSE 'behind' END) AS "where"
        FROM (SELECT extract(epoch FROM $1::timestamptz - clock_timestamp()) AS seconds) drift
        WHERE abs(seconds) > {MAX_DRIFT_S}
        """,  # noqa: S608 - only the constant above is inserted
        # Not the time at which the doctor has started: other checks may take minutes.
        lambda _settings, _now: (utc_now(),),
    ),
)
