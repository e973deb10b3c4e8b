"""What Prometheus scrapes. Labels are routes, methods and outcomes: never a tenant's data."""

from collections.abc import Awaitable, Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from tonne.http.route import Request, Response

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._requests = Counter(
            "tonne_http_requests", "Requests answered.", ("method", "route", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "tonne_http_request_seconds",
            "Time to answer.",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.in_flight = Gauge("tonne_http_requests_in_flight", "Requests being answered.", registry=self.registry)
        # Asked at every scrape: for what stands in the database, not in this process.
        self.sources: list[Callable[[], Awaitable[Iterable[Metric]]]] = []
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        # Looking up a child by its labels is the dear part of prometheus_client, so each is looked up once.
        place = (method, route, status)
        children = self._known.get(place)
        if children is None:
            children = (self._requests.labels(method, route, status), self._seconds.labels(method, route))
            self._known[place] = children
        children[0].inc()
        children[1].observe(seconds)

    async def endpoint(self, _: Request) -> Response:
        """Metrics for Prometheus."""
        body = generate_latest(self.registry)
        for source in self.sources:
            body += generate_latest(_Snapshot(await source()))
        return Response(body, media_type=CONTENT_TYPE_LATEST.encode())


class _Snapshot:
    """Metrics that were read a moment ago, in the form that the exposition asks for."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics
