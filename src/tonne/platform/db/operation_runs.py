"""When backups, tests of a restore and the doctor last ended, for the metrics. What runs them writes it."""

from datetime import datetime

from tonne.platform.db.database import Connection
from tonne.platform.process.telemetry.instruments import Combine, MetricKind, Snapshot

OPERATIONS = ("backup", "restore_test", "doctor")
# The exit codes of an operation that has done its work: 3 are warnings of the doctor.
_DONE = (0, 3)

RECORD_RUN = """
INSERT INTO operation_runs (operation, ended_at, status, succeeded_at)
VALUES ($1, $2, $3, CASE WHEN $4::boolean THEN $2::timestamptz END)
ON CONFLICT (operation) DO UPDATE SET ended_at = excluded.ended_at, status = excluded.status,
    succeeded_at = coalesce(excluded.succeeded_at, operation_runs.succeeded_at)
"""


async def record_run(tx: Connection, operation: str, status: int, at: datetime) -> None:
    """`status` is the exit code."""
    await tx.execute(RECORD_RUN, operation, at, status, status in _DONE)


# One that never ran counts from the installation: that nobody has scheduled it must not stay unnoticed.
READ_RUNS = """
SELECT operation, extract(epoch FROM coalesce(run.succeeded_at, installed.at))::float8 AS succeeded_at,
       extract(epoch FROM coalesce(run.ended_at, installed.at))::float8 AS ended_at, coalesce(run.status, 0) AS status
FROM unnest($1::text[]) AS operation LEFT JOIN operation_runs run USING (operation)
CROSS JOIN (SELECT min(applied_at) AS at FROM schema_migrations) AS installed
"""


async def read_runs(connection: Connection) -> list[Snapshot]:
    runs = {row["operation"]: row for row in await connection.fetch(READ_RUNS, OPERATIONS)}
    backup, test, doctor = (runs[operation] for operation in OPERATIONS)
    return [
        _gauge("tonne_backup_last_success", "When a backup last succeeded.", backup["succeeded_at"]),
        _gauge("tonne_backup_last_verified", "When a backup was last restored for a test.", test["succeeded_at"]),
        _gauge("tonne_restore_test_status", "0 if the last test of a restore succeeded.", test["status"], ""),
        _gauge("tonne_doctor_last_run", "When tonne doctor last ended.", doctor["ended_at"]),
        _gauge("tonne_doctor_status", "The exit code of the last run of tonne doctor.", doctor["status"], ""),
    ]


def _gauge(name: str, text: str, value: float, unit: str = "_timestamp_seconds") -> Snapshot:
    return Snapshot(f"{name}{unit}", MetricKind.GAUGE, text, (), [((), [float(value)])], combine=Combine.MAX)
