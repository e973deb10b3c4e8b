"""Every form of the dashboard that changes something writes an audit entry of the user."""

from collections.abc import Callable

import pyotp

from tests.apps.dashboard.test_sign_in import turn_on_second_factor
from tests.support.clock import ManualClock
from tests.support.people import PASSWORD, Person, add_user, link_in_last_mail
from tests.support.world import World
from tonne.apps.wiring.app import Services

ANN, BOB, NEW = "ann@ours.test", "bob@ours.test", "new@ours.test"
NEW_PASSWORD = "nine purple umbrellas"  # noqa: S105 - of test users


async def test_every_form_is_in_the_audit_log(
    services: Services, world: World, person: Callable[[], Person], clock: ManualClock
) -> None:
    organisation_id = world.ours_test.scope.organisation_id
    base = f"/dashboard/live/{organisation_id}"
    ann_id = (await add_user(services, ANN, organisation_id)).id
    bob_id = (await add_user(services, BOB, organisation_id)).id
    ann, other = person(), person()

    async def added(actor: str) -> str:
        """The newest action. The actor is as expected."""
        async with services.database.connection() as connection:
            row = await connection.fetchrow("SELECT actor, action FROM audit_log ORDER BY id DESC LIMIT 1")
        assert row is not None
        assert row["actor"] == actor
        return str(row["action"])

    async def fetch(sql: str) -> str:
        async with services.database.connection() as connection:
            return str(await connection.fetchval(sql))

    by_ann = f"user:{ann_id}"
    await other.sign_in(ANN)
    other_session = await fetch("SELECT id FROM user_sessions")
    await ann.sign_in(ANN)
    assert await added(by_ann) == "user.signed_in"
    await ann.submit(f"/dashboard/you/sessions/{other_session}/end")
    assert await added(by_ann) == "user.session_ended"
    await ann.submit("/dashboard/you/sessions/end")
    assert await added(by_ann) == "user.sessions_ended"
    await ann.submit(f"{base}/tax", street="Pier 3", postcode="1011", city="Amsterdam", country="NL")
    assert await added(by_ann) == "organisation.tax_set"
    await ann.submit(f"{base}/people", email=NEW, role="finance")
    assert await added(by_ann) == "member.invited"
    link_id = await fetch("SELECT id FROM user_links")
    await ann.submit(f"{base}/invitations/{link_id}/revoke")
    assert await added(by_ann) == "member.invitation_revoked"
    await ann.submit(f"{base}/people/{bob_id}/role", role="admin")
    assert await added(by_ann) == "member.role_changed"
    await ann.submit(f"{base}/people/{bob_id}/remove")
    assert await added(by_ann) == "member.removed"
    await ann.submit(f"{base}/people", email=BOB, role="finance")
    bob = person()
    await bob.sign_in(BOB)
    await bob.submit(await link_in_last_mail(services))
    assert await added(f"user:{bob_id}") == "member.added"
    fields = {"old_password": PASSWORD, "password": NEW_PASSWORD, "repeat": NEW_PASSWORD}
    await ann.submit("/dashboard/you/password", **fields)
    assert await added(by_ann) == "user.password_changed"
    secret, _ = await turn_on_second_factor(ann, clock)
    assert await added(by_ann) == "user.second_factor_enabled"
    clock.advance(seconds=60)
    await ann.submit("/dashboard/you/second-factor/codes", code=pyotp.TOTP(secret).at(clock()))
    assert await added(by_ann) == "user.recovery_codes_renewed"
    clock.advance(seconds=60)
    await ann.submit("/dashboard/you/second-factor/disable", code=pyotp.TOTP(secret).at(clock()))
    assert await added(by_ann) == "user.second_factor_disabled"
    await ann.submit("/dashboard/sign-out")
    assert await added(by_ann) == "user.signed_out"
    await ann.submit("/dashboard/password", email=ANN)
    await ann.submit(await link_in_last_mail(services), password=PASSWORD, repeat=PASSWORD)
    assert await added("user:not signed in") == "user.password_changed"
