"""The results of `tonne doctor`, for the operator's page."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import asdict

from tonne.platform.db.database import Connection
from tonne.platform.values.context import new_id

KEPT = timedelta(days=180)


class DoctorFinding(Struct, frozen=True):
    """A check that was not ok. The objects are not stored: their names may be those of persons."""

    name: str
    status: str
    meaning: str
    remedy: str
    count: int


class DoctorRun(Struct, frozen=True):
    """`since`: only changes from then on were checked, where a check can be limited."""

    finished_at: datetime
    actor: str
    since: datetime | None
    status: str
    checks: int
    findings: Sequence[DoctorFinding]


INSERT_RUN = """
INSERT INTO doctor_runs (id, finished_at, actor, since, status, checks, findings) VALUES ($1, $2, $3, $4, $5, $6, $7)
"""


async def insert_run(tx: Connection, run: DoctorRun) -> None:
    findings = json.dumps([asdict(each) for each in run.findings])
    await tx.execute(INSERT_RUN, new_id("doc"), run.finished_at, run.actor, run.since, run.status, run.checks, findings)


PRUNE_RUNS = "DELETE FROM doctor_runs WHERE finished_at < $1"


async def prune_runs(tx: Connection, before: datetime) -> None:
    await tx.execute(PRUNE_RUNS, before)


async def record_run(tx: Connection, run: DoctorRun) -> None:
    """Also deletes the results of runs long ago."""
    await insert_run(tx, run)
    await prune_runs(tx, run.finished_at - KEPT)


FIND_LAST_RUN = """
SELECT finished_at, actor, since, status, checks, findings FROM doctor_runs ORDER BY finished_at DESC LIMIT 1
"""


async def find_last_run(connection: Connection) -> DoctorRun | None:
    row = await connection.fetchrow(FIND_LAST_RUN)
    if row is None:
        return None
    findings = [DoctorFinding(**each) for each in json.loads(row["findings"])]
    return DoctorRun(**{**row, "findings": findings})
