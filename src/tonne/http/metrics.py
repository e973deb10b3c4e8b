"""Metrics for Prometheus. Labels are routes, methods and status codes, never data of clients."""

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
            "tonne_http_requests", "Requests.", ("method", "route", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "tonne_http_request_seconds",
            "Duration of requests.",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.in_flight = Gauge("tonne_http_requests_in_flight", "Requests in progress.", registry=self.registry)
        # Called on every scrape, for metrics that are read from the database.
        self.sources: list[Callable[[], Awaitable[Iterable[Metric]]]] = []
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        # prometheus_client is slow at finding a metric by its labels, so each is looked up once.
        key = (method, route, status)
        children = self._children.get(key)
        if children is None:
            children = (self._requests.labels(method, route, status), self._seconds.labels(method, route))
            self._children[key] = children
        children[0].inc()
        children[1].observe(seconds)

    async def endpoint(self, _: Request) -> Response:
        """Metrics for Prometheus."""
        body = generate_latest(self.registry)
        for source in self.sources:
            body += generate_latest(_Snapshot(await source()))
        return Response(body, media_type=CONTENT_TYPE_LATEST.encode())


class _Snapshot:
    """Metrics that were already read, in the form that `generate_latest` expects."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics
