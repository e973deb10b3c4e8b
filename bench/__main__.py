"""python -m bench [create] [read] [list] [growth] [memory] [--quick]"""

import argparse
import asyncio
import signal
import sys
import time

import psutil

from bench import growth, speed
from bench.checks import NotMeasured, count_orders, require_sound
from bench.fill import fill
from bench.load import WrongAnswer
from bench.pace import FULL, QUICK, Pace
from bench.report import Goal, Result, print_line, print_table
from bench.requests import creates
from bench.stage import set_stage
from bench.tenants import ORGANISATIONS

NAMES = ("create", "read", "list", "growth", "memory")
SPEED = {"create": speed.create, "read": speed.read_by_key, "list": speed.list_100}
MEMORY_LIMIT_MB = 200.0
QUIET_PERCENT = 10.0
# So many that every tenant has more than one page of 100.
FULL_PAGES = 110 * ORGANISATIONS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Tonne, as docs/benchmarks.md says.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"which benchmarks: {', '.join(NAMES)} (all)")
    parser.add_argument("--quick", action="store_true", help="only see whether the benchmarks work")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}: choose from {', '.join(NAMES)}.")
    # As Ctrl-C does, so that server, database and folder are gone whoever ends us.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = time.monotonic()
    _warn_when_busy()
    try:
        results = asyncio.run(_run(set(arguments.names or NAMES), QUICK if arguments.quick else FULL))
    except (NotMeasured, WrongAnswer) as error:
        sys.exit(f"The run is void. {error}")
    except KeyboardInterrupt:
        sys.exit("Stopped.")
    print_table(results)
    print(f"\nIt took {time.monotonic() - started:.0f} s.")
    sys.exit(any(result.verdict == "MISSED" for result in results))


def _warn_when_busy() -> None:
    busy_percent = psutil.cpu_percent(interval=1.0)
    if busy_percent > QUIET_PERCENT:
        print(f"The machine is {busy_percent:.0f} % busy with other things: expect false numbers.", file=sys.stderr)


async def _run(names: set[str], pace: Pace) -> list[Result]:
    results: list[Result] = []

    def note(*found: Result) -> None:
        for result in found:
            results.append(result)
            print_line(result)

    async with set_stage() as stage:
        # The first orders: fills copy one of them.
        stage.fire(creates(stage), connections=1, warm_up_s=0, seconds=0.2)
        small: dict[str, growth.Cost] = {}
        filled = 0
        if "growth" in names:
            # All to one tenant, so that its list has a thousand pages.
            await fill(stage, stage.tenants[:1], first=1, count=pace.small_orders)
            filled = pace.small_orders
            await require_sound(stage)
            small = await growth.probe(stage, pace)
        if not names.isdisjoint(SPEED):
            await fill(stage, stage.tenants, first=filled + 1, count=FULL_PAGES)
            filled += FULL_PAGES
        for name, measure in SPEED.items():
            if name in names:
                await stage.settle()
                note(await measure(stage, pace))
        if "growth" in names:
            missing = pace.large_orders - await count_orders(stage)
            await fill(stage, stage.tenants, first=filled + 1, count=missing)
            note(*growth.compare(small, await growth.probe(stage, pace)))
        if "memory" in names:
            resident_mb = stage.serving().memory_info().rss / 1e6
            note(Result("memory", resident_mb, "MB", MEMORY_LIMIT_MB, Goal(reach=1.0, at_most=True)))
    return results


if __name__ == "__main__":
    main()
