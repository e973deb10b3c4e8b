"""python -m bench.life [life] [growth] [certificates] [--quick]"""

import argparse
import asyncio
import signal
import sys
import time

import psutil

from bench.certificates import certificates
from bench.checks import NotMeasured
from bench.life_growth import growth
from bench.life_pace import FULL, QUICK, Pace
from bench.life_scene import set_scene
from bench.life_speed import life
from bench.load import WrongAnswer
from bench.report import Result, print_line, print_table

NAMES = ("life", "growth", "certificates")
QUIET_PERCENT = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.life", description="Measure how orders become complete.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"which benchmarks: {', '.join(NAMES)} (all)")
    parser.add_argument("--quick", action="store_true", help="only see whether the benchmarks work")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}: choose from {', '.join(NAMES)}.")
    # As Ctrl-C does, so that server, database and folder are gone whoever ends us.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = time.monotonic()
    busy_percent = psutil.cpu_percent(interval=1.0)
    if busy_percent > QUIET_PERCENT:
        print(f"The machine is {busy_percent:.0f} % busy with other things: expect false numbers.", file=sys.stderr)
    try:
        results = asyncio.run(run(set(arguments.names or NAMES), QUICK if arguments.quick else FULL))
    except (NotMeasured, WrongAnswer) as error:
        sys.exit(f"The run is void. {error}")
    except KeyboardInterrupt:
        sys.exit("Stopped.")
    print_table(results)
    print(f"\nIt took {time.monotonic() - started:.0f} s.")
    sys.exit(any(result.verdict == "MISSED" for result in results))


async def run(names: set[str], pace: Pace) -> list[Result]:
    results: list[Result] = []

    def note(*found: Result) -> None:
        results.extend(found)
        for result in found:
            print_line(result)

    if "certificates" in names:
        note(certificates(pace.certificates))
    if not names.isdisjoint({"life", "growth"}):
        async with set_scene() as scene:
            if "life" in names:
                note(*await life(scene, pace))
            if "growth" in names:
                note(*await growth(scene, pace))
    return results


if __name__ == "__main__":
    main()
