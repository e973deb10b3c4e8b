"""Tonne and the peer in turn, with the same requests, on the same PostgreSQL, one serving process each."""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from statistics import median
from urllib.parse import urlsplit

import asyncpg

from bench.api.throughput import CONNECTIONS, count_orders, page_request, read_requests
from bench.copies import copy_orders
from bench.environment import SECRET_KEY, Environment, open_environment
from bench.load import PreparedRequest
from bench.pace import QUICK_PEER, PeerPace
from bench.report import Goal, NotMeasured, Report, Result
from tests.support.processes import Process, free_port
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Connection, Database
from tonne.platform.settings.settings import Settings

DATABASE = "peer"
# How many times as many requests per second as the peer.
AIMS = {"read": 4.0, "list": 6.0, "create": 1.9}
# Creating comes last: until then both have the same orders.
NAMES = tuple(AIMS)
COUNT_PEER_ROWS = """
SELECT (SELECT count(*) FROM orders) AS orders, (SELECT count(*) FROM outbox) AS events,
       (SELECT count(DISTINCT (account_id, order_id)) FROM order_lines) AS orders_with_lines
"""


@contextlib.asynccontextmanager
async def open_peer(environment: Environment) -> AsyncIterator[Environment]:
    """The peer with a database of its own, with the tenants and orders that Tonne has."""
    # FastAPI and SQLAlchemy, which no other benchmark needs.
    from bench.peer import fill  # noqa: PLC0415

    url, port = urlsplit(environment.url)._replace(path=f"/{DATABASE}").geturl(), free_port()
    async with environment.connection() as admin:
        await admin.execute(f"CREATE DATABASE {DATABASE} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'")
    await fill.create_tables(url)
    connection: Connection = await asyncpg.connect(url)
    settings = Settings(port=environment.port, secret_key=SECRET_KEY)
    database = await Database(environment.url, settings).open()
    tenants = [(tenant.scope, tenant.key) for tenant in environment.tenants]
    accounts = await fill.copy_tenants(Services(database, settings), tenants, connection)
    await database.close()
    async with environment.connection() as source:
        await fill.copy_orders(source, connection, accounts)
    await connection.close()
    server = Process("bench.peer.server", url, str(port), settings={}, log=environment.folder / "peer.log")
    try:
        server.wait_until_ready(port)
        yield replace(environment, url=url, port=port, server=server, application_name=DATABASE)
    finally:
        server.stop()


@dataclass(slots=True)
class Measured:
    """Requests per second of one service in each round, and the CPU time of all of them."""

    rates: list[float]
    cpu_s: float = 0.0
    answered: int = 0

    @property
    def cpu_ms(self) -> float:
        return self.cpu_s / self.answered * 1000


async def _measure(environment: Environment, pace: PeerPace, requests: list[PreparedRequest], into: Measured) -> None:
    before = await environment.cpu_s_by_process()
    outcome = environment.run_load(requests, connections=CONNECTIONS, warm_up_s=pace.warm_up_s, seconds=pace.round_s)
    after = await environment.cpu_s_by_process()
    into.rates.append(outcome.per_second)
    into.cpu_s += sum(used_s - before.get(process, 0.0) for process, used_s in after.items())
    into.answered += outcome.answered


async def _in_turn(
    sides: Sequence[Environment], pace: PeerPace, requests: Callable[[Environment], list[PreparedRequest]]
) -> list[Measured]:
    prepared = [requests(side) for side in sides]
    measured = [Measured([]) for _ in sides]
    for side in sides:
        await side.require_durable()
        await side.vacuum()
    for _ in range(pace.rounds):
        for place, side in enumerate(sides):
            await _measure(side, pace, prepared[place], measured[place])
    return measured


def _results(name: str, tonne: Measured, peer: Measured) -> list[Result]:
    return [
        Result(f"peer_{name}", median(tonne.rates), "requests/s", median(peer.rates), Goal(AIMS[name])),
        Result(f"peer_{name}_cpu", tonne.cpu_ms, "ms", peer.cpu_ms),
    ]


async def _count_peer_orders(peer: Environment) -> int:
    async with peer.connection() as connection:
        row = await connection.fetchrow(COUNT_PEER_ROWS)
    if row is None or not row["orders"] * 2 == row["orders_with_lines"] * 2 == row["events"]:
        raise NotMeasured(f"Some orders of the peer lack lines or events: {row}.")
    orders: int = row["orders"]
    return orders


async def run(names: AbstractSet[str], report: Report, *, quick: bool) -> None:
    pace = QUICK_PEER if quick else PeerPace()
    async with open_environment() as tonne:
        # Create the first orders: the others are copies of one of them.
        tonne.run_load(tonne.create_requests(), connections=1, seconds=0.2)
        await copy_orders(tonne, tonne.tenants, pace.orders)
        reads = await read_requests(tonne, 2_000)
        async with open_peer(tonne) as peer:
            sides = [tonne, peer]
            if "read" in names:
                report.add(*_results("read", *await _in_turn(sides, pace, lambda _: reads)))
            if "list" in names:
                report.add(*_results("list", *await _in_turn(sides, pace, _pages)))
            if "create" in names:
                report.add(*await _create(tonne, peer, pace))


def _pages(side: Environment) -> list[PreparedRequest]:
    return [page_request(side, tenant, 100) for tenant in side.tenants]


async def _create(tonne: Environment, peer: Environment, pace: PeerPace) -> list[Result]:
    """Every order that was confirmed, and no other, must be in the databases."""
    before = [await count_orders(tonne), await _count_peer_orders(peer)]
    measured = await _in_turn([tonne, peer], pace, lambda side: side.create_requests())
    after = [await count_orders(tonne), await _count_peer_orders(peer)]
    for old, new, one in zip(before, after, measured, strict=True):
        if new - old != one.answered:
            raise NotMeasured(f"{one.answered} orders were placed, but {new - old} are in the database.")
    await tonne.require_consistent()
    return _results("create", *measured)
