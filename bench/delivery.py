"""python -m bench.delivery [deliver_one] [deliver_200] [hanging] [latency] [event_growth] [--quick]"""

import argparse
import asyncio
import sys
import time

import psutil

from bench.checks import NotMeasured
from bench.delivery_growth import event_growth
from bench.delivery_latency import latency
from bench.delivery_pace import FULL, QUICK, Pace
from bench.delivery_scene import set_scene
from bench.delivery_speed import deliver_200, deliver_one
from bench.load import WrongAnswer
from bench.report import Result, print_line, print_table
from bench.requests import creates

NAMES = ("latency", "deliver_one", "deliver_200", "hanging", "event_growth")
QUIET_PERCENT = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.delivery", description="Measure how events reach their receivers."
    )
    parser.add_argument("names", nargs="*", metavar="name", help=f"which benchmarks: {', '.join(NAMES)} (all)")
    parser.add_argument("--quick", action="store_true", help="only see whether the benchmarks work")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}: choose from {', '.join(NAMES)}.")
    started = time.monotonic()
    busy_percent = psutil.cpu_percent(interval=1.0)
    if busy_percent > QUIET_PERCENT:
        print(f"The machine is {busy_percent:.0f} % busy with other things: expect false numbers.", file=sys.stderr)
    try:
        results = asyncio.run(run(set(arguments.names or NAMES), QUICK if arguments.quick else FULL))
    except (NotMeasured, WrongAnswer) as error:
        sys.exit(f"The run is void. {error}")
    print_table(results)
    print(f"\nIt took {time.monotonic() - started:.0f} s.")
    sys.exit(any(result.verdict == "MISSED" for result in results))


async def run(names: set[str], pace: Pace) -> list[Result]:
    results: list[Result] = []

    def note(found: list[Result]) -> None:
        results.extend(found)
        for result in found:
            print_line(result)

    async with set_scene() as scene:
        # The first orders: fills copy one of them. Several at once, so that the api's connections are open.
        scene.stage.fire(creates(scene.stage), connections=4, warm_up_s=0, seconds=0.3)
        if "latency" in names:
            note(await latency(scene, pace))
        if "deliver_one" in names:
            note(await deliver_one(scene, pace))
        if not names.isdisjoint({"deliver_200", "hanging"}):
            note(await deliver_200(scene, pace, names))
        if "event_growth" in names:
            note(await event_growth(scene, pace))
    return results


if __name__ == "__main__":
    main()
