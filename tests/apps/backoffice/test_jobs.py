"""Jobs and queues as the operator sees them."""

from tests.support.clock import ManualClock
from tests.support.orders import place
from tests.support.people import Person
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.jobs.loop import JobReports
from tonne.platform.jobs.metrics import JobMetrics

JOBS = "/operator/live/jobs"


async def test_jobs_and_workers_are_shown(olga: Person, services: Services, clock: ManualClock) -> None:
    assert "No worker is running" in (await olga.get(JOBS)).text
    metrics = JobMetrics()
    for job in ("send_mails", "issue_invoices", "<b>"):
        metrics.register(job)
    metrics.succeed("send_mails", worked=True, seconds=0.1)
    metrics.fail("issue_invoices", 0.1)
    metrics.fail("issue_invoices", 0.1)
    metrics.begin("<b>")
    reports = JobReports(services.database, metrics, clock, "host-1 42")
    await reports.report()
    await reports.report()
    page = (await olga.get(JOBS)).text
    for part in ("host-1 42", "2 failures in a row", "Working", "<code>&lt;b&gt;</code>", "Running"):
        assert part in page
    assert page.index("issue_invoices") < page.index("send_mails"), "what fails comes first"
    clock.advance(minutes=1)
    page = (await olga.get(JOBS)).text
    assert ("Silent" in page, "No worker is running" in page) == (True, True)
    await reports.withdraw()
    assert "host-1 42" not in (await olga.get(JOBS)).text


async def test_queues_are_those_of_the_mode(olga: Person, services: Services, world: World, clock: ManualClock) -> None:
    await place(services, world.ours_test.scope, clock())
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE orders SET next_attempt_at = now() - interval '5 minutes'")
    label = "Orders that wait for payment or an invoice"
    live, test = [(await olga.get(JOBS.replace("live", mode))).text for mode in ("live", "test")]
    rows = [page.partition(label)[2].partition("</tr>")[0] for page in (live, test)]
    assert ["Late" in row for row in rows] == [False, True]
    assert "Mails to send" in test


async def test_a_hold_is_shown(olga: Person, services: Services) -> None:
    async with services.database.transaction() as tx:
        await tx.execute("INSERT INTO service_holds (held_at, held_by, reason) VALUES (now(), 'cli:ada', 'Restored.')")
    assert "Restored." in (await olga.get(JOBS)).text
