"""Metrics of deliveries. Their labels are modes and outcomes: the ids of webhooks and accounts belong to tenants."""

import time

from tonne.channels.webhooks.delivery.outcomes import Delivered, SendOutcome
from tonne.channels.webhooks.model import EventBatch, Lease
from tonne.platform.process.telemetry.instruments import SLOW_BOUNDS, CounterFamily, HistogramFamily, Metric


class DeliveryMetrics:
    def __init__(self) -> None:
        self._attempts = CounterFamily(
            "tonne_webhook_attempts_total",
            "Requests to receivers. The outcome is delivered, or the error.",
            "mode",
            "outcome",
        )
        self._events = CounterFamily("tonne_webhook_events_total", "Events delivered.", "mode")
        self._seconds = HistogramFamily(
            "tonne_webhook_request_seconds", "Duration of requests to receivers.", "mode", bounds=SLOW_BOUNDS
        )
        self._latency = HistogramFamily(
            "tonne_webhook_delivery_seconds",
            "From an event to its delivery, for the oldest event of each request. Parked accounts are not included.",
            "mode",
            bounds=SLOW_BOUNDS,
        )
        self.leases_lost = CounterFamily(
            "tonne_webhook_leases_lost_total",
            "Turns cut short: the process was stopped for too long, or another worker had claimed the webhook.",
            "reason",
        )
        self.parked = CounterFamily("tonne_webhook_accounts_parked_total", "Accounts that were parked.", "mode")

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return self._attempts, self._events, self._seconds, self._latency, self.leases_lost, self.parked

    def observe(self, lease: Lease, batch: EventBatch, outcome: SendOutcome) -> None:
        delivered = isinstance(outcome, Delivered)
        self._attempts.inc(lease.mode, "delivered" if delivered else outcome.error or "refused")
        self._seconds.of(lease.mode).observe(outcome.duration_ms / 1000)
        if delivered:
            self._events.of(lease.mode).inc(len(batch.positions))
            if batch.oldest_at is not None:
                # The database's clock may be ahead of ours.
                self._latency.of(lease.mode).observe(max(0.0, time.time() - batch.oldest_at))
