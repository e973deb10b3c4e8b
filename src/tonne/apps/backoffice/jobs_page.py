"""The jobs of the workers and the queues of the database, refreshed every few seconds."""

from datetime import datetime

from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import OperatorViewer
from tonne.platform.db.queues import QueueReader, read_hold
from tonne.platform.http.route import Response
from tonne.platform.jobs.worker_states import read_workers

# A queue whose first row is due for longer needs a look: a worker is missing, or a job fails.
LATE_S = 60.0
QUEUE_LABELS = {
    "mails": "Mails to send",
    "failed_mails": "Mails given up",
    "held_mails": "Test mails held back",
    "orders_received": "Orders that wait for a price",
    "orders_placed": "Orders that wait for payment or an invoice",
    "orders_paid": "Paid orders that wait for credits",
    "orders_retiring": "Orders whose credits are being retired",
    "charges": "Charges without an outcome",
    "refunds": "Refunds to make",
    "invoices": "Invoices to mail, remind or cancel",
    "bank_transfers": "Bank transfers to resolve",
    "retirements": "Parcels to retire at a registry",
    "pooled_units": "Pooled units that fill up",
    "events": "Events to deliver to webhooks",
    "events_failing": "Events for webhooks that fail",
    "events_parked": "Accounts parked at a webhook, by the age of their events",
    "events_disabled": "Events for disabled webhooks",
    "failing_webhooks": "Webhooks that fail",
    "parked_accounts": "Accounts parked at a webhook",
    "checkouts": "Checkouts to close",
    "certificate_mails": "Certificates to mail",
    "expiring_keys": "API keys in use that expire within three days",
}
# No job works on these: they wait for a person, a customer or a receiver.
FOR_PEOPLE = frozenset(
    {"failed_mails", "held_mails", "bank_transfers", "retirements", "failing_webhooks", "events_parked"}
    | {"events_disabled", "expiring_keys"}
)


class JobsPage(DashboardPage, frozen=True):
    queues: QueueReader

    def section(self) -> OperatorSection:
        return OperatorSection(pages={"/jobs": self.show})

    async def show(self, viewer: OperatorViewer) -> Response:
        now = self.clock()
        queues = await self.queues.read_states()
        async with self.database.connection() as connection:
            workers, jobs = await read_workers(connection, now)
            hold = await read_hold(connection)
        return self.layout.page(
            viewer,
            "operator_jobs.html",
            now=now,
            hold=hold,
            workers=workers,
            jobs=sorted(jobs, key=lambda job: (job.failures == 0, job.name)),
            queues=None if queues is None else [each for each in queues if each.mode in {viewer.mode, "any"}],
            labels=QUEUE_LABELS,
            for_people=FOR_PEOPLE,
            late_s=LATE_S,
            stuck_after_s=self.settings.worker_stuck_s,
            duration=format_duration,
            ago=lambda at: spell_ago(at, now),
        )


def format_duration(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def spell_ago(at: datetime | None, now: datetime) -> str:
    """Clocks of other machines may be a little ahead."""
    return "Never" if at is None else f"{format_duration(max(0.0, (now - at).total_seconds()))} ago"
