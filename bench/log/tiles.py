"""Tiles served per second, compared with a bare route of the same server that holds the same bytes."""

import http.client
import random
from statistics import median

from bench.environment import Environment
from bench.load import PreparedRequest, get
from bench.log.probe import probing
from bench.pace import LogPace
from bench.report import Goal, NotMeasured, Result
from bench.server import bare_path, hold_bodies
from tests.support.processes import HOST
from tonne_verify.merkle import HASH_SIZE
from tonne_verify.tiles import TILE_WIDTH, TileId, entries_path, tile_path

CONNECTIONS = 32
GOAL = Goal(reach=0.8)
# The api keeps the full tiles that it served last in memory. Monitors ask for the same ones.
POPULAR, SPREAD = 200, 20_000
_RNG = random.Random(20261117)


async def tiles(environment: Environment, pace: LogPace) -> list[Result]:
    """Full tiles and bundles that others have asked for, and tiles at random, which are read from the database."""
    environment.server.stop()
    environment.start_server()
    async with probing(environment) as probe:
        log = await probe.log()
    full = log.size // TILE_WIDTH
    numbers = [_RNG.randrange(full) for _ in range(POPULAR)]
    spread = _RNG.sample(range(full), min(full, SPREAD))
    paths = {
        "tile": [f"{log.path}/{tile_path(TileId(0, number))}" for number in numbers],
        "entries": [f"{log.path}/{entries_path(number)}" for number in numbers],
        "tile_spread": [f"{log.path}/{tile_path(TileId(0, number))}" for number in spread],
    }
    for name in ("tile", "entries"):
        _require_immutable(environment, paths[name][0])
    results = []
    for name, bare in (("tile", "tile"), ("entries", "entries"), ("tile_spread", "tile")):
        value, limit = _compare(environment, pace, paths[name], bare)
        results.append(Result(name, value, "requests/s", limit, GOAL if name == bare else None))
    return results


def _compare(environment: Environment, pace: LogPace, paths: list[str], bare_name: str) -> tuple[float, float]:
    """Value and limit, measured in turn. The load checks the length of each response."""
    body = environment.fetch(get(paths[0]))
    if len(body) < TILE_WIDTH * HASH_SIZE:
        raise NotMeasured(f"{paths[0]} is not full.")
    hold_bodies(environment.folder, bare_name, [body])
    requests = [get(path, length=len(body)) for path in paths]
    bare = [get(bare_path(bare_name), length=len(body))]
    values: list[float] = []
    limits: list[float] = []
    for _ in range(pace.rounds):
        for target, rates in ((bare, limits), (requests, values)):
            rates.append(_load(environment, pace, target))
    return median(values), median(limits)


def _load(environment: Environment, pace: LogPace, requests: list[PreparedRequest]) -> float:
    outcome = environment.run_load(requests, connections=CONNECTIONS, warm_up_s=pace.warm_up_s, seconds=pace.round_s)
    return outcome.per_second


def _require_immutable(environment: Environment, path: str) -> None:
    connection = http.client.HTTPConnection(HOST, environment.port, timeout=10)
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    connection.close()
    caching = response.headers.get("Cache-Control", "")
    if response.status != 200 or not {"public", "max-age=31536000", "immutable"} <= set(caching.split(", ")):
        raise NotMeasured(f"{path} returned {response.status} with Cache-Control {caching!r}.")
