"""Helpers for checkouts: run jobs, let time pass, change prices and supply."""

from collections.abc import Awaitable, Callable
from typing import Any

from tests.support.scene import Scene
from tests.support.world import World
from tonne.apps.wiring.app import Services

Rows = Callable[[str], Awaitable[list[dict[str, Any]]]]
HOSTILE = """<script>alert("1")</script><img src=x onerror=alert(2)>"'&{{7*7}}{% raw %}"""

# Test supply does not run out, but a bundle without projects has none.
SELL_OUT = """
WITH gone AS (DELETE FROM bundle_projects WHERE mode = 'test' AND bundle_id = $1)
UPDATE catalogues SET version = version + 1 WHERE mode = 'test'
"""
# A bundle that has no project in common with another.
FIND_APART = """
SELECT id FROM bundles WHERE mode = 'test' AND enabled AND NOT EXISTS (
    SELECT FROM bundle_projects one JOIN bundle_projects other USING (mode, project_id)
    WHERE mode = 'test' AND one.bundle_id = bundles.id AND other.bundle_id = $1)
"""


async def work(services: Services) -> None:
    """Run all jobs that are due."""
    await Scene(services).run_jobs(*(job for job in services.jobs() if job.name != "deliver_webhooks"))


async def change_price(services: Services) -> None:
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE bundles SET unit_price_minor = unit_price_minor + 100 WHERE mode = 'test'")
        await tx.execute("UPDATE catalogues SET version = version + 1 WHERE mode = 'test'")


async def age(
    services: Services,
    statement: str = "UPDATE checkouts SET expires_at = now() - interval '1 s', next_close_at = now() - interval '1 s'",
) -> None:
    async with services.database.transaction() as tx:
        await tx.execute(statement)


async def allow(services: Services, world: World, host: str) -> None:
    async with services.database.transaction() as tx:
        await tx.execute(
            "INSERT INTO redirect_hosts (organisation_id, host, created_at) VALUES ($1, $2, now())",
            world.ours_test.scope.organisation_id,
            host,
        )
