"""python -m chaos [--seed SEED] [--only NAME]... [--keep]"""

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from chaos.checker import Tally, check
from chaos.postgres import Postgres
from chaos.scenarios import SCENARIOS
from chaos.scenarios.scenario import Scenario
from chaos.scene import Scene, Trouble

# No scenario is played longer than until here, so that all together, with the judging, end within ten minutes.
LIMIT_S = 560.0
HARD_LIMIT_S = 598.0
SHOWN = 6


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m chaos", description="Faults on purpose: see docs/chaos.md.")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000), help="of a former run")
    parser.add_argument("--only", action="append", metavar="NAME", help="play this scenario; may be given repeatedly")
    parser.add_argument("--keep", action="store_true", help="leave the records, the logs and the database in place")
    arguments = parser.parse_args()
    names = [scenario.name for scenario in SCENARIOS]
    if unknown := set(arguments.only or names) - set(names):
        parser.error(f"There is no scenario {', '.join(sorted(unknown))}: choose from {', '.join(names)}.")
    chosen = [scenario for scenario in SCENARIOS if scenario.name in (arguments.only or names)]
    folder = Path(tempfile.mkdtemp(prefix="tonne-chaos-"))
    folder.chmod(0o755)
    _end_after(HARD_LIMIT_S, folder)
    try:
        sound = asyncio.run(_run(chosen, arguments.seed, folder))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("Stopped before the end.")
        sound = False
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"Records, logs and database: {folder}")
    sys.exit(0 if sound else 1)


def _end_after(seconds: float, folder: Path) -> None:
    """The last resort, for a run that hangs so badly that even its own limit does not end it."""

    def end() -> None:
        print("The run hangs: it is ended the hard way.", flush=True)
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        with contextlib.suppress(OSError, ValueError, IndexError):
            os.kill(int((folder / "postgres" / "data" / "postmaster.pid").read_text().splitlines()[0]), signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    watchdog = threading.Timer(seconds, end)
    watchdog.daemon = True
    watchdog.start()


async def _run(scenarios: Sequence[Scenario], seed: int, folder: Path) -> bool:
    """True when every promise was kept and every fault fired."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    started = time.monotonic()
    print(f"seed {seed}", flush=True)
    postgres = Postgres(folder / "postgres")
    failed = 0
    try:
        await postgres.make_template()
        for scenario in scenarios:
            left_s = LIMIT_S - (time.monotonic() - started)
            if not await _play(scenario, postgres, folder, seed, left_s):
                failed += 1
    finally:
        await postgres.close()
    took_s = time.monotonic() - started
    verdict = f"{failed} failed" if failed else "all promises kept"
    print(f"{len(scenarios)} scenarios in {took_s:.0f} s, {verdict} (seed {seed})", flush=True)
    return not failed


async def _play(scenario: Scenario, postgres: Postgres, folder: Path, seed: int, left_s: float) -> bool:
    started = time.monotonic()
    place = folder / scenario.name
    place.mkdir()
    database = scenario.name.replace("-", "_")
    await postgres.clone(database)
    scene = Scene(postgres, database, place, random.Random(f"{seed} {scenario.name}"), scenario.settings)
    tally = Tally()
    try:
        await _play_out(scenario, scene, min(scenario.within_s, left_s))
        await scene.close()
        tally = await check(scene)
    except Exception as error:  # noqa: BLE001 - one scenario that breaks must not keep the others from being played
        scene.problems += [f"the records cannot be judged: {reason!r}" for reason in _reasons(error)]
    finally:
        await scene.abandon()
    with contextlib.suppress(OSError):
        await postgres.drop(database)
    return _report(scenario, scene, tally, time.monotonic() - started)


async def _play_out(scenario: Scenario, scene: Scene, within_s: float) -> None:
    """Whatever keeps it from its end is a problem of the scene, and the records so far are judged all the same."""
    if within_s <= 0:
        scene.problems.append("it was not played: the time of the run was up")
        return
    try:
        async with asyncio.timeout(within_s):
            await scene.open()
            await scenario.play(scene)
    except TimeoutError:
        scene.problems.append(f"it did not come to its end within {within_s:.0f} s")
    except Exception as error:  # noqa: BLE001 - see above
        scene.problems += [str(reason) if isinstance(reason, Trouble) else repr(reason) for reason in _reasons(error)]


def _reasons(error: BaseException) -> list[BaseException]:
    """What several tasks raised at once, one by one."""
    if isinstance(error, BaseExceptionGroup):
        return [reason for part in error.exceptions for reason in _reasons(part)]
    return [error]


def _report(scenario: Scenario, scene: Scene, tally: Tally, took_s: float) -> bool:
    problems = [*scene.problems, *tally.problems, *scene.faults.missing()]
    problems += [trouble for receiver in scene.receivers for trouble in receiver.troubles]
    fired = ", ".join(f"{name} {scene.faults.counts[name]}x" for name in scene.faults.announced)
    facts = [
        f"{tally.requests} requests",
        f"{tally.events} events",
        f"{tally.redelivered} redelivered",
        *([f"{tally.unsettled} acknowledged but not settled"] if tally.unsettled else []),
        *([f"{tally.overlaps} overlapping"] if tally.overlaps else []),
        *scene.notes,
    ]
    print(f"{'FAILED' if problems else 'ok    '} {scenario.name:<22} {took_s:5.1f} s  {fired} | {', '.join(facts)}")
    for problem in problems[:SHOWN]:
        print(f"         - {problem}")
    if len(problems) > SHOWN:
        print(f"         - and {len(problems) - SHOWN} more")
    sys.stdout.flush()
    return not problems


if __name__ == "__main__":
    main()
