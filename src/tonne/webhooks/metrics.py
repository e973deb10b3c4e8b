"""Prometheus metrics of deliveries. They come from the database, so every API process reports the same values."""

from collections.abc import Iterable

import asyncpg
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tonne.db.pool import Connection, Database

READ_PROGRESS = """
SELECT webhook.id, webhook.mode, stream.last_position - webhook.cursor_position AS waiting_events,
       coalesce(extract(epoch FROM clock_timestamp() - (
           SELECT sequence FROM events event
           WHERE (event.organisation_id, event.mode) = (webhook.organisation_id, webhook.mode)
             AND event.position > webhook.cursor_position
           ORDER BY position LIMIT 1)), 0)::float8 AS waiting_seconds,
       (SELECT count(*) FROM webhook_parked parked
        WHERE parked.organisation_id = webhook.organisation_id AND parked.webhook_id = webhook.id) AS parked_accounts,
       webhook.acknowledged_count, webhook.refused_count
FROM webhooks webhook JOIN event_streams stream USING (organisation_id, mode)
WHERE webhook.deleted_at IS NULL ORDER BY webhook.id
"""


async def read_progress_any_account(connection: Connection) -> list[asyncpg.Record]:
    return await connection.fetch(READ_PROGRESS)


class WebhookMetrics:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def collect(self) -> Iterable[Metric]:
        labels = ("webhook_id", "mode")
        events = GaugeMetricFamily("tonne_webhook_waiting_events", "Events not delivered yet.", labels=labels)
        seconds = GaugeMetricFamily(
            "tonne_webhook_waiting_seconds", "Age of the oldest event that is not delivered yet.", labels=labels
        )
        parked = GaugeMetricFamily("tonne_webhook_parked_accounts", "Accounts that are parked.", labels=labels)
        attempts = CounterMetricFamily("tonne_webhook_attempts", "Delivery attempts.", labels=(*labels, "outcome"))
        async with self._database.connection() as connection:
            rows = await read_progress_any_account(connection)
        for row in rows:
            label_values = [row["id"], row["mode"]]
            events.add_metric(label_values, row["waiting_events"])
            seconds.add_metric(label_values, row["waiting_seconds"])
            parked.add_metric(label_values, row["parked_accounts"])
            attempts.add_metric([*label_values, "acknowledged"], row["acknowledged_count"])
            attempts.add_metric([*label_values, "refused"], row["refused_count"])
        return events, seconds, parked, attempts
