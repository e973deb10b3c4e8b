"""CPU time and memory of reading a bank statement, per line: the same for 2,000 and for 100,000 lines."""

import asyncio
import resource
import time
from collections.abc import Set as AbstractSet
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from bench.report import Goal, Report, Result
from tests.money.bank.formats.large_statements import LARGE
from tonne.money.bank.formats.identity import StoredLine, identify
from tonne.money.bank.formats.read_statement import read_statement
from tonne.platform.documents.sheets.read_sheet import SheetFile

FILES = {"csv": "CSV", "mt940": "MT940", "camt": "camt.053", "batch": "camt.053, one entry"}
NAMES = tuple(FILES)
FEW, MANY = 2_000, 100_000
LIMIT_MB = 400.0
# Of what a line of the small file takes.
LINEAR = Goal(reach=1.5, at_most=True)
BOUNDED = Goal(reach=1.0, at_most=True)


async def run(names: AbstractSet[str], report: Report, *, quick: bool) -> None:
    few, many = (100, 400) if quick else (FEW, MANY)
    for name in NAMES:
        if name not in names:
            continue
        measured = []
        for count in (few, many):
            # A process of its own: the memory that is reported is the most that it ever had.
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                measured.append(await asyncio.get_running_loop().run_in_executor(pool, measure, name, count))
        (read_few, again_few, _), (read_many, again_many, memory_mb) = measured
        report.add(
            Result(f"statement_{name}_read", read_many, "us/line", read_few, LINEAR),
            Result(f"statement_{name}_again", again_many, "us/line", again_few, LINEAR),
            Result(f"statement_{name}_memory", memory_mb, "MB", LIMIT_MB, BOUNDED),
        )


def measure(name: str, count: int) -> tuple[float, float, float]:
    """Microseconds per line to read the file, and to recognise its lines when it is imported again; megabytes."""
    file = SheetFile(name, LARGE[FILES[name]](count))
    started = time.process_time()
    statement = read_statement(file)
    read = time.process_time() - started
    stored = [StoredLine(f"trf_{line.line}_{at}", statement.format, line) for at, line in enumerate(statement.lines)]
    started = time.process_time()
    identify(statement.lines, statement.format, stored)
    again = time.process_time() - started
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return read / count * 1e6, again / count * 1e6, memory_mb
