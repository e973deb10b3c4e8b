"""python -m bench SUBJECT|all [NAME ...] [--quick]: `SUBJECTS` lists the subjects."""

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from bench.api import run as api
from bench.billing import run as billing
from bench.billing_files import run as billing_files
from bench.client import run as client
from bench.dashboard import run as dashboard
from bench.delivery import run as delivery
from bench.disk import run as disk
from bench.doctor import run as doctor
from bench.estimates import run as estimates
from bench.growth import run as growth
from bench.life import run as life
from bench.limits import run as limits
from bench.load import UnexpectedResponse
from bench.log import run as log
from bench.mail import run as mail
from bench.pages import run as pages
from bench.peer import run as peer
from bench.registry import run as registry
from bench.report import NotMeasured, Report
from bench.start import run as start
from bench.statements import run as statements
from bench.whole import run as whole

SUBJECTS: dict[str, Any] = {
    "api": api,
    "delivery": delivery,
    "life": life,
    "limits": limits,
    "billing": billing,
    "billing_files": billing_files,
    "disk": disk,
    "dashboard": dashboard,
    "doctor": doctor,
    "pages": pages,
    "peer": peer,
    "client": client,
    "estimates": estimates,
    "growth": growth,
    "log": log,
    "mail": mail,
    "registry": registry,
    "start": start,
    "statements": statements,
    "whole": whole,
}
# The subjects of `all`.
USUAL = ("api", "delivery", "life", "whole", "billing", "disk")
# The subjects with --orders and --folder.
SIZED = ("growth", "doctor", "dashboard", "limits")
IDLE_PERCENT = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Tonne. See docs/benchmarks.md.")
    parser.add_argument("subject", nargs="?", choices=[*SUBJECTS, "all"], help="what to measure")
    listed = "; ".join(f"{name}: {', '.join(subject.NAMES)}" for name, subject in SUBJECTS.items())
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these benchmarks ({listed})")
    parser.add_argument("--quick", action="store_true", help="only check that the benchmarks work")
    parser.add_argument("--orders", type=int, help="growth, doctor, dashboard and limits: how many orders")
    parser.add_argument("--folder", type=Path, help="growth, doctor, dashboard and limits: where the database is (var)")
    arguments = parser.parse_args()
    if arguments.subject is None:
        parser.print_help()
        return
    subjects = list(USUAL) if arguments.subject == "all" else [arguments.subject]
    known = {name for subject in subjects for name in SUBJECTS[subject].NAMES}
    if unknown := set(arguments.names) - known:
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}: choose from {', '.join(sorted(known))}")
    # SIGTERM stops the run like Ctrl-C, so that server, database and folder are removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = {}
    if arguments.subject in SIZED:
        given = {"orders": arguments.orders, "folder": arguments.folder}
        options = {name: value for name, value in given.items() if value is not None}
    sys.exit(_measure(subjects, set(arguments.names) or known, quick=arguments.quick, **options))


def _measure(subjects: Sequence[str], names: set[str], *, quick: bool, **options: object) -> int:
    started = time.monotonic()
    busy_percent = psutil.cpu_percent(interval=1.0)
    if busy_percent > IDLE_PERCENT:
        print(f"Other processes use {busy_percent:.0f} % of the CPU: the results will be wrong.", file=sys.stderr)
    report = Report()
    try:
        for subject in subjects:
            if requested := names & set(SUBJECTS[subject].NAMES):
                asyncio.run(SUBJECTS[subject].run(requested, report, quick=quick, **options))
    except (NotMeasured, UnexpectedResponse) as error:
        sys.exit(f"The run is void. {error}")
    except KeyboardInterrupt:
        sys.exit("Stopped.")
    report.print_table()
    print(f"\nThe run took {time.monotonic() - started:.0f} s.")
    return 1 if report.missed else 0


if __name__ == "__main__":
    main()
