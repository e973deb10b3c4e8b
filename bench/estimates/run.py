"""CPU time of the serving process for one estimate: a whole request, with its quote and its row in the database."""

import itertools
import random
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from statistics import median
from typing import Any

import httpx

from bench.environment import Environment, cpu_s_by_process, open_environment
from bench.pace import QUICK_ESTIMATES, EstimatePace
from bench.report import Goal, Report, Result
from bench.server import bare_path, body_file, hold_bodies

NAMES = ("flight", "sea_cold", "sea_cached")
AIRPORTS = ("BER", "LIS", "LHR", "JFK", "SIN", "SYD", "GRU", "NRT", "CPT", "LAX", "DXB", "KEF")
PORTS = (
    *("CNSHA", "NLRTM", "SGSIN", "USNYC", "USLAX", "DEHAM", "BEANR", "JPYOK", "BRSSZ", "ZACPT", "AUSYD", "NZAKL"),
    *("INBOM", "AEJEA", "KRPUS", "GBFXT", "ESALG", "ITGOA", "GRPIR", "MYPKG", "LKCMB", "PECLL", "CLVAP", "USHOU"),
)
# The bare route whose body is the estimate of a flight.
BARE = "order"
_RNG = random.Random(20261117)


@dataclass(frozen=True, slots=True)
class Subject:
    """`bodies` are requests that are sent in turn; `limit_ms` is what one may cost."""

    path: str
    bodies: Iterator[dict[str, Any]]
    limit_ms: float
    calls: int


def _flight(source: str, destination: str) -> dict[str, Any]:
    return {"route": {"source": {"code": source}, "destination": {"code": destination}}, "cabin_class": "economy"}


def _container(source: str, destination: str) -> dict[str, Any]:
    return {
        "shipment": {"containers": "2"},
        "route": {"source": {"locode": source}, "destination": {"locode": destination}},
        "method": {"vessel_type": "container_ship"},
    }


def subjects(pace: EstimatePace) -> dict[str, Subject]:
    pairs = list(itertools.permutations(PORTS, 2))
    _RNG.shuffle(pairs)
    flights = itertools.cycle(_flight(*pair) for pair in itertools.permutations(AIRPORTS, 2))
    return {
        "flight": Subject("flight", flights, 2.0, pace.calls),
        # Every route is a new one, also in the other direction: the cache has none of them.
        "sea_cold": Subject("shipping", iter([_container(*pair) for pair in pairs]), 50.0, pace.cold_calls),
        "sea_cached": Subject("shipping", itertools.cycle([_container("CNSHA", "NLRTM")]), 2.0, pace.calls),
    }


class Calls:
    def __init__(self, environment: Environment, http: httpx.Client) -> None:
        self._url = f"http://127.0.0.1:{environment.port}/v1/estimates"
        self._headers = {"Authorization": f"Bearer {environment.tenants[0].key}"}
        self._server = environment.serving_process().pid
        self._http = http
        self._bare_url = f"http://127.0.0.1:{environment.port}{bare_path(BARE)}"
        self._bare_file = body_file(environment.folder, BARE)

    def send(self, subject: Subject, calls: int) -> float:
        """CPU time of the serving process in milliseconds per call. Its database connections are not counted."""
        before = cpu_s_by_process([self._server])[self._server]
        for body in itertools.islice(subject.bodies, calls):
            response = self._http.post(f"{self._url}/{subject.path}", json=body, headers=self._headers)
            assert response.status_code == 201, response.text
        return (cpu_s_by_process([self._server])[self._server] - before) / calls * 1000

    def send_bare(self, calls: int) -> float:
        """The same for a route that does nothing but return the bytes of a flight's estimate."""
        if not self._bare_file.exists():
            response = self._http.post(f"{self._url}/flight", json=_flight("BER", "LIS"), headers=self._headers)
            hold_bodies(self._bare_file.parent, BARE, [response.content])
        before = cpu_s_by_process([self._server])[self._server]
        for _ in range(calls):
            assert self._http.get(self._bare_url).status_code == 200
        return (cpu_s_by_process([self._server])[self._server] - before) / calls * 1000


async def run(names: AbstractSet[str], report: Report, *, quick: bool) -> None:
    pace = QUICK_ESTIMATES if quick else EstimatePace()
    async with open_environment() as environment:
        with httpx.Client(timeout=30) as http:
            calls = Calls(environment, http)
            for name, subject in subjects(pace).items():
                if name in names:
                    # Loads factors, airports and shipping lanes, once per process.
                    calls.send(subject, pace.warm_up_calls)
                    cpu_ms = median(calls.send(subject, subject.calls) for _ in range(pace.rounds))
                    goal = Goal(1.0, at_most=True)
                    report.add(Result(f"estimate_{name}_cpu", cpu_ms, "ms", subject.limit_ms, goal))
                    if name == "flight":
                        calls.send_bare(pace.warm_up_calls)
                        bare_ms = median(calls.send_bare(subject.calls) for _ in range(pace.rounds))
                        report.add(Result("estimate_flight_bare", cpu_ms, "ms", bare_ms))
