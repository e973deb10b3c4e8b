"""python -m chaos [SCENARIO | FAMILY ...] [--seed SEED] [--quick] [--list] [--keep]"""

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from chaos.checker import Tally, check
from chaos.cluster import Cluster
from chaos.failover.machines import Machines
from chaos.failover.patroni_cluster import NODES, PatroniCluster, install
from chaos.model import NotAsExpected
from chaos.report import Report
from chaos.scenario import Scenario
from chaos.scenarios import SCENARIOS
from tests.support.postgres import Databases, PostgresServer
from tests.support.world import TESTER
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.demo import demo_files
from tonne.supply.stock.lots.import_lots import import_files

# No scenario runs longer, so that the whole run, with the checks, ends within 75 minutes.
LIMIT_S = 4460.0
# Scenarios on a Patroni cluster. They wait for leases of Patroni to expire, so they take longer.
FAILOVER = "failover"
FAILOVER_LIMIT_S = 3000.0
# Needs the history of the repository for the old release.
UPGRADES = "upgrades"
ATTACK = "attack"
# Need Prometheus and Alertmanager. Seconds of the rules cannot be made shorter than they are.
ALERTS, ALERTS_SHORT = "alerts", "alerts-short"
REGISTRIES_SHORT = "registries-short"
ALERTS_LIMIT_S = 2500.0
TEMPLATE = "chaos_template"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m chaos", description="Inject faults. See docs/chaos.md.")
    parser.add_argument("names", nargs="*", metavar="SCENARIO", help="only these scenarios or families (see --list)")
    seed = random.SystemRandom().randrange(1_000_000)
    parser.add_argument("--seed", type=int, default=seed, help="repeat the random choices of an earlier run")
    parser.add_argument("--quick", action="store_true", help="run one scenario of each kind")
    parser.add_argument("--list", action="store_true", help="list the scenarios")
    parser.add_argument("--keep", action="store_true", help="keep records, logs and database")
    arguments = parser.parse_args()
    names = [scenario.name for scenario in SCENARIOS]
    if arguments.list:
        print("\n".join(names))
        return
    folders = {_folder(scenario) for scenario in SCENARIOS if scenario.family is None}
    choices = [*sorted(folders), FAILOVER, UPGRADES, ATTACK, ALERTS_SHORT, REGISTRIES_SHORT, *names]
    if unknown := set(arguments.names) - set(choices):
        parser.error(f"unknown scenario {', '.join(sorted(unknown))}: choose from {', '.join(choices)}")
    chosen = [scenario for scenario in SCENARIOS if _is_chosen(scenario, arguments.names)]
    if arguments.quick:
        chosen = [scenario for scenario in chosen if scenario.quick or arguments.names]
    folder = Path(tempfile.mkdtemp(prefix="tonne-chaos-"))
    failed = True
    try:
        failed = asyncio.run(_run(chosen, arguments.seed, folder))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("Stopped.")
    finally:
        if arguments.keep:
            print(f"Records, logs and database: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if failed else 0)


def _is_chosen(scenario: Scenario, names: Sequence[str]) -> bool:
    if scenario.family is None:
        return not names or scenario.name in names or _folder(scenario) in names
    return scenario.name in names or scenario.family in names


def _folder(scenario: Scenario) -> str:
    """All scenarios of a folder can be named at once: `money`."""
    module: str = getattr(scenario.play, "func", scenario.play).__module__
    return module.split(".")[1]


async def _run(scenarios: Sequence[Scenario], seed: int, folder: Path) -> bool:
    """Whether a promise was broken or a fault did not fire."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    started = time.monotonic()
    report = Report(seed)
    if alone := [scenario for scenario in scenarios if scenario.family != FAILOVER]:
        postgres = PostgresServer(folder / "postgres")
        limit_s = ALERTS_LIMIT_S if any(scenario.family == ALERTS for scenario in alone) else LIMIT_S
        try:
            await _play_all(alone, postgres, folder, report, limit_s=limit_s)
        finally:
            await postgres.close()
    if replicated := [scenario for scenario in scenarios if scenario.family == FAILOVER]:
        install()
        machines = Machines(NODES.values()) if os.geteuid() == 0 else None
        patroni = PatroniCluster(folder / "patroni", machines)
        try:
            await patroni.start()
            await _play_all(replicated, patroni, folder, report, limit_s=FAILOVER_LIMIT_S)
        finally:
            await patroni.close()
            if machines is not None:
                machines.remove()
    report.print_summary(time.monotonic() - started)
    return report.failed > 0


async def _play_all(
    scenarios: Sequence[Scenario], databases: Databases, folder: Path, report: Report, *, limit_s: float
) -> None:
    started = time.monotonic()
    await databases.create(TEMPLATE)
    await databases.fill(TEMPLATE, _import_catalogue)
    for scenario in scenarios:
        left_s = limit_s - (time.monotonic() - started)
        rng = random.Random(f"{report.seed} {scenario.name}")
        await _play(scenario, databases, folder, report, left_s=left_s, rng=rng)


async def _import_catalogue(tx: Connection) -> None:
    await import_files(tx, Mode.TEST, demo_files(Mode.TEST), currency="EUR", by=TESTER.now())


async def _play(
    scenario: Scenario, databases: Databases, folder: Path, report: Report, *, left_s: float, rng: random.Random
) -> None:
    started = time.monotonic()
    database = scenario.name.replace("-", "_")
    await databases.clone(TEMPLATE, database)
    place = folder / scenario.name
    place.mkdir()
    cluster = Cluster(databases, database, place, rng, scenario.settings)
    tally = Tally()
    try:
        await _inject_faults(scenario, cluster, min(scenario.within_s, left_s))
        await cluster.close()
        tally = await check(cluster)
    except Exception as error:  # noqa: BLE001 - one broken scenario must not stop the others
        cluster.problems += [f"the records could not be checked: {reason!r}" for reason in _reasons(error)]
    finally:
        await cluster.kill()
    with contextlib.suppress(OSError):
        await databases.drop(database)
    report.add(scenario.name, cluster, tally, time.monotonic() - started)


async def _inject_faults(scenario: Scenario, cluster: Cluster, within_s: float) -> None:
    """An error is a problem of the scenario. The records are checked nevertheless."""
    if within_s <= 0:
        cluster.problems.append("it did not run: the time limit of the run was reached")
        return
    limit = asyncio.timeout(within_s)
    try:
        async with limit:
            await cluster.open(api=scenario.api)
            await scenario.play(cluster)
    except Exception as error:  # noqa: BLE001 - see above
        if limit.expired():
            cluster.problems.append(f"it did not end within {within_s:.0f} s")
            return
        cluster.problems += [
            str(reason) if isinstance(reason, NotAsExpected) else "".join(traceback.format_exception(reason))
            for reason in _reasons(error)
        ]


def _reasons(error: BaseException) -> list[BaseException]:
    """The single exceptions of a group."""
    if isinstance(error, BaseExceptionGroup):
        return [reason for part in error.exceptions for reason in _reasons(part)]
    return [error]


if __name__ == "__main__":
    main()
