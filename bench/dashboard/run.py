"""CPU time and size of every page of the dashboard in live mode, with a million orders of one organisation."""

import http.client
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple

from bench.dashboard.data import prepare, prepare_templates
from bench.dashboard.pages import OPERATOR, ORGANISATION, DashboardPage, find_pages, page_routes, require_samples
from bench.environment import SECRET_KEY, Environment
from bench.growth.run import filled
from bench.pace import QUICK_DASHBOARD, DashboardPace
from bench.report import Goal, NotMeasured, Report, Result
from tests.support.processes import HOST, ROOT
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.http.route import Route
from tonne.platform.settings.settings import Settings

NAMES = (ORGANISATION, OPERATOR)
LIMIT_MS, LIMIT_KB = 100.0, 200.0
GOAL = Goal(reach=1.0, at_most=True)
GROWTH_GOAL = Goal(reach=1.5, at_most=True)
# CPU time is counted in steps of 10 ms for all requests of a round together. Below this, growth is noise.
SMALLEST_MS = 5.0
HTML = "text/html"


class Cost(NamedTuple):
    cpu_ms: float
    kilobytes: float


Costs = dict[tuple[str, str], Cost]


async def run(
    names: AbstractSet[str], report: Report, *, quick: bool, orders: int | None = None, folder: Path | None = None
) -> None:
    pace = QUICK_DASHBOARD if quick else DashboardPace()
    pages = [(area, name) for area, name in page_routes(service_routes()) if area in names]
    require_samples(pages)
    parent, count = folder or ROOT / "var", orders or pace.large_orders
    # A page that does not work voids the run here, before the many orders are made.
    small = await _measure(parent, pages, pace.small_orders, pace)
    large = await _measure(parent, pages, count, pace)
    print(f"\nCPU time per page with {pace.small_orders:,} and with {count:,} orders, their ratio, and size:")
    for key, cost in large.items():
        print(page_line("".join(key), small[key], cost), flush=True)
    report.add(*summary(small, large))


def results(name: str, small: Cost, large: Cost) -> list[Result]:
    return [
        Result(name, large.cpu_ms, "ms", LIMIT_MS, GOAL),
        Result(f"{name} growth", max(large.cpu_ms, SMALLEST_MS), "ms", max(small.cpu_ms, SMALLEST_MS), GROWTH_GOAL),
        Result(f"{name} size", large.kilobytes, "KB", LIMIT_KB, GOAL),
    ]


def page_line(name: str, small: Cost, large: Cost) -> str:
    cpu, growth, size = results(name, small, large)
    missed = [word for word, each in (("CPU", cpu), ("growth", growth), ("size", size)) if each.verdict == "MISSED"]
    numbers = f"{small.cpu_ms:7.1f} ms {large.cpu_ms:7.1f} ms {growth.ratio:6.2f} {large.kilobytes:6.0f} KB"
    return f"{name:<72} {numbers}{'  MISSED: ' + ', '.join(missed) if missed else ''}"


def summary(small: Mapping[tuple[str, str], Cost], large: Mapping[tuple[str, str], Cost]) -> list[Result]:
    """The worst of each kind, and everything else that missed its goal."""
    by_kind = zip(*(results("".join(key), small[key], cost) for key, cost in large.items()), strict=True)
    shown = []
    for kind in by_kind:
        worst = max(kind, key=lambda result: result.ratio)
        shown += [worst, *(each for each in kind if each.verdict == "MISSED" and each is not worst)]
    return shown


def service_routes() -> list[Route]:
    """The routes of a service without a database: they are made before the first connection."""
    settings = Settings(secret_key=SECRET_KEY)
    return Services(Database("postgresql://nowhere", settings), settings).routes()


async def _measure(parent: Path, pages: Sequence[tuple[str, str]], orders: int, pace: DashboardPace) -> Costs:
    made = filled(parent, orders, complete=orders // 10, of_one_tenant=True, before_copies=prepare_templates)
    async with made as (environment, _):
        cookies = await prepare(environment)
        await environment.vacuum()
        async with environment.connection() as connection:
            found = await find_pages(connection, pages, environment.tenants[0].scope.organisation_id)
        costs: Costs = {}
        failed: list[str] = []
        for page in found:
            try:
                costs[page.area, page.name] = await _cost(environment, page, cookies[page.area], pace)
            except NotMeasured as error:
                failed.append(str(error))
        if failed:
            raise NotMeasured("\n".join(failed))
        return costs


async def _cost(environment: Environment, page: DashboardPage, cookie: str, pace: DashboardPace) -> Cost:
    """One request at a time: CPU time of the serving process and of its database connections, per request."""
    connection = http.client.HTTPConnection(HOST, environment.port, timeout=60)
    try:
        body = b""
        for _ in range(pace.warm_ups):
            body = _get(connection, page, cookie)
        rounds = [await _round(environment, connection, page, cookie, pace.requests) for _ in range(pace.rounds)]
    except (OSError, http.client.HTTPException) as error:
        raise NotMeasured(f"{page.path}: {type(error).__name__}: {error}") from error
    finally:
        connection.close()
    return Cost(min(rounds) / pace.requests * 1000, len(body) / 1000)


async def _round(
    environment: Environment, connection: http.client.HTTPConnection, page: DashboardPage, cookie: str, requests: int
) -> float:
    """CPU seconds of these requests."""
    before = await environment.cpu_s_by_process()
    for _ in range(requests):
        _get(connection, page, cookie)
    after = await environment.cpu_s_by_process()
    return sum(used - before.get(process, 0.0) for process, used in after.items())


def _get(connection: http.client.HTTPConnection, page: DashboardPage, cookie: str) -> bytes:
    connection.request("GET", page.path, headers={"Cookie": cookie})
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        shown = f"{response.headers.get('Location', '')} {body.decode(errors='replace')[:500]}"
        raise NotMeasured(f"{page.path} returned {response.status}: {shown}")
    media_type = response.headers.get("Content-Type", "")
    if not media_type.startswith(HTML):
        raise NotMeasured(f"{page.name} is a file ({media_type}): add its ending to FILES in bench/dashboard/pages.py.")
    return body
