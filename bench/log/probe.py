"""A connection pool of this process, and the CPU time of both ends of it."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.environment import SECRET_KEY, Environment, cpu_s_by_process
from bench.report import NotMeasured
from bench.tenants import MODE
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.supply.transparency.log_store import find_log
from tonne.supply.transparency.model import Log


@dataclass(frozen=True, slots=True)
class LogProbe:
    environment: Environment
    database: Database
    settings: Settings
    # Database connections of other processes.
    other_backends: frozenset[int]

    async def cpu_s(self) -> float:
        """CPU time of this process and of its database connections so far."""
        own = await self.environment.backends() - self.other_backends
        return time.process_time() + sum(cpu_s_by_process(list(own)).values())

    async def log(self) -> Log:
        async with self.database.connection() as connection:
            log = await find_log(connection, MODE, 1)
        if log is None:
            raise NotMeasured("There is no log.")
        return log


@asynccontextmanager
async def probing(environment: Environment) -> AsyncIterator[LogProbe]:
    others = await environment.backends()
    settings = Settings(
        database_url=environment.url, data_dir=str(environment.folder), port=environment.port, secret_key=SECRET_KEY
    )
    database = await Database(environment.url, settings).open()
    try:
        yield LogProbe(environment, database, settings, others)
    finally:
        await database.close()
