"""`tonne doctor` names the API keys that are about to expire."""

from datetime import timedelta

from tests.apps.cli.desk import Desk
from tests.support.clock import ManualClock
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.selling.accounts.waiting import WAITING


async def test_an_api_key_in_use_is_named_before_it_expires(services: Services, world: World) -> None:
    """Not one that nobody uses, that has days left or was replaced by a rotation."""
    desk, [check], key = Desk(services, ManualClock(), world), WAITING, world.ours_live
    for used_days_ago, days_left, replaced, is_named in (
        (1, 2, None, True),
        (1, 4, None, False),
        (8, 2, None, False),
        (1, 2, "key_new", False),
    ):
        await desk.execute(
            "UPDATE api_keys SET last_used_at = $1, expires_at = $2, replaced_by = $3 WHERE id = $4",
            desk.clock() - timedelta(days=used_days_ago),
            desk.clock() + timedelta(days=days_left),
            replaced,
            key.key_id,
        )
        found = (await desk.waiting()).get(check.name, [])
        assert [key.key_id in place for place in found] == [True] * is_named
