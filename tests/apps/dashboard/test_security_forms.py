"""Changes of security need a recent sign-in, are mailed, and end what could undo them."""

import re
from collections.abc import Callable

import pyotp
import pytest

from tests.support.clock import ManualClock
from tests.support.people import PASSWORD, Person, add_user, last_mail, link_in_last_mail, operator
from tests.support.world import World
from tonne.apps.dashboard.security_forms import ENDING_FORMS, SECURITY_FORMS
from tonne.apps.wiring.app import Services
from tonne.platform.http.route import Access
from tonne.selling.users.sign_in import RECENT

MakePerson = Callable[[], Person]
ANN = "ann@ours.test"
# Forms that neither change who may do what nor where money goes. A new form belongs here or in SECURITY_FORMS.
HARMLESS = {
    "/accounts",
    "/accounts/{account_id}",
    "/accounts/{account_id}/archive",
    "/accounts/{account_id}/card",
    "/accounts/{account_id}/close",
    "/accounts/{account_id}/links/{offset_link_id}",
    "/accounts/{account_id}/links/{offset_link_id}/enabled",
    "/accounts/{account_id}/mix",
    "/accounts/{account_id}/payment",
    "/accounts/{account_id}/unarchive",
    "/act-as/end",
    "/tax",
    "/audit-packs",
    "/audit-packs/{pack_id}/delete",
    "/buy",
    "/buy/order",
    "/buy/quote",
    "/catalogue/bundles/{bundle_id}/cancel-price",
    "/catalogue/bundles/{bundle_id}/price",
    "/catalogue/bundles/{bundle_id}/switch",
    "/catalogue/import",
    "/catalogue/pictures",
    "/catalogue/pictures/remove",
    "/certificates/download",
    "/customers/new",
    "/customers/{organisation_id}/close",
    "/customers/{organisation_id}/fee",
    "/customers/{organisation_id}/reopen",
    "/customers/{organisation_id}/tax",
    "/customers/{organisation_id}/tax/preview",
    "/customers/{organisation_id}/vat-check",
    "/dashboard/sign-out",
    "/dashboard/you/passkeys/options",
    "/dashboard/you/passkeys/{passkey_id}/rename",
    "/dashboard/you/sessions/end",
    "/dashboard/you/sessions/{session_id}/end",
    "/documentation-key",
    "/documents/deliveries/answer",
    "/imports/{import_id}/accept-rates",
    "/imports/{import_id}/apply",
    "/imports/{import_id}/discard",
    "/invitations/{link_id}/revoke",
    "/invoices/{number}/replace",
    "/links",
    "/mails/{mail_id}/discard",
    "/mails/{mail_id}/retry",
    "/money/doubtful/{line_id}",
    "/money/inbox",
    "/money/invoices/{number}/clear-settled",
    "/money/invoices/{number}/credit",
    "/money/invoices/{number}/reinstate",
    "/money/invoices/{number}/replace",
    "/money/invoices/{number}/resend",
    "/money/invoices/{number}/settle",
    "/money/invoices/{number}/write-off",
    "/books/chart",
    "/books/exchange-rates",
    "/books/tax-rates",
    "/money/payments",
    "/money/payments/{charge_id}/accept",
    "/money/payments/{charge_id}/return",
    "/money/refunds/{refund_id}/decline",
    "/money/refunds/{refund_id}/retry",
    "/money/refunds/{refund_id}/settle",
    "/money/returns/export",
    "/money/returns/{return_id}/cancel",
    "/money/returns/{return_id}/failed",
    "/money/returns/{return_id}/returned",
    "/money/statements/{upload_id}/discard",
    "/money/statements/{upload_id}/import",
    "/money/transfers/{transfer_id}/assign",
    "/money/transfers/{transfer_id}/payout",
    "/money/transfers/{transfer_id}/reopen",
    "/money/transfers/{transfer_id}/resolve",
    "/money/transfers/{transfer_id}/unassign",
    "/money/disputes/{dispute_id}/credit-tax",
    "/money/disputes/{dispute_id}/keep-tax",
    "/month-end/{month}/close",
    "/month-end/{month}/compare",
    "/month-end/{month}/reopen",
    "/orders/{order_id}/cancel",
    "/persons",
    "/persons/export",
    "/orders/{order_id}/mails",
    "/orders/{order_id}/name",
    "/orders/{order_id}/reduce",
    "/orders/{order_id}/refund",
    "/orders/{order_id}/release",
    "/orders/{order_id}/test-helpers/{step}",
    "/overview/target",
    "/public-page",
    "/public-page/preview",
    "/registries/accounts/{account_id}/check",
    "/registries/differences/{drift_id}/settle",
    "/registries/requests/{request_id}/retry",
    "/registries/requests/{request_id}/settle",
    "/registries/statements",
    "/retirements/import",
    "/retirements/projects/{project_id}",
    "/retirements/take",
    "/retirements/units/{unit_id}/close",
    "/supply/import",
    "/supply/lots/{lot_id}/facts",
    "/supply/lots/{lot_id}/invalidate",
    "/supply/lots/{lot_id}/resolve",
    "/supply/lots/{lot_id}/withdraw",
    "/supply/projects/{project_id}/facts",
    "/webhooks/{webhook_id}/delete",
    "/webhooks/{webhook_id}/retry",
    "/webhooks/{webhook_id}/rewind",
    "/webhooks/{webhook_id}/skip",
    "/webhooks/{webhook_id}/state",
    "/webhooks/{webhook_id}/test",
}
_BASE = re.compile(r"^/(dashboard/(test|live)/{organisation_id}|operator/(test|live))(?=/)")


@pytest.fixture
async def ann(services: Services, world: World, person: MakePerson) -> Person:
    await add_user(services, ANN, world.ours_test.scope.organisation_id)
    ann = person()
    await ann.sign_in(ANN)
    return ann


def forms(services: Services) -> dict[str, str]:
    """The addresses of all forms of signed-in people, with their path within the section."""
    routes = [route.path for route in services.routes() if route.method == "POST" and route.access is Access.USER]
    return {path: _BASE.sub("", path) for path in routes}


async def test_every_form_is_known_as_a_change_of_security_or_as_harmless(services: Services) -> None:
    found = set(forms(services).values())
    assert found == set(SECURITY_FORMS) | HARMLESS
    assert not set(SECURITY_FORMS) & HARMLESS
    assert set(SECURITY_FORMS) >= ENDING_FORMS


async def test_an_old_session_changes_no_security(
    services: Services, world: World, person: MakePerson, clock: ManualClock
) -> None:
    olga = person()
    user = await operator(services, olga)
    clock.advance(seconds=RECENT.total_seconds() + 1)
    async with services.database.connection() as connection:
        before = await connection.fetchval("SELECT count(*) FROM audit_log")
        for path, within in forms(services).items():
            if within in SECURITY_FORMS:
                address = path.replace("{organisation_id}", world.ours_test.scope.organisation_id)
                answer = await olga.submit(re.sub("{[a-z_]+}", user.id, address))
                assert answer.status_code == 303, path
                assert answer.headers["location"].startswith("/dashboard/sign-in?again=1&next=/"), path
        assert await connection.fetchval("SELECT count(*) FROM audit_log") == before


async def test_after_signing_in_again_the_change_is_possible_and_the_old_session_has_ended(
    ann: Person, person: MakePerson, clock: ManualClock, world: World
) -> None:
    stolen = person()
    stolen.http.cookies.set("tonne_session", ann.http.cookies["tonne_session"], domain="tonne.test")
    clock.advance(minutes=31)
    base = f"/dashboard/test/{world.ours_test.scope.organisation_id}"
    asked = await ann.submit(f"{base}/people/usr_x/role", role="owner")
    goal = f"{base}/people/usr_x"
    assert asked.headers["location"] == f"/dashboard/sign-in?again=1&next={goal}"
    assert "sign in again, then repeat it" in (await ann.get(asked.headers["location"])).text
    answer = await ann.submit("/dashboard/sign-in", email=ANN, password=PASSWORD, next=goal)
    assert answer.headers["location"] == goal
    assert (await ann.submit(f"{base}/people", email="bob@ours.test", role="admin")).status_code == 303
    assert (await stolen.get("/dashboard/you")).headers["location"].startswith("/dashboard/sign-in")


async def test_a_change_is_mailed_in_the_language_of_the_organisation(
    services: Services, ann: Person, world: World
) -> None:
    organisation_id = world.ours_test.scope.organisation_id
    async with services.database.connection() as connection:
        await connection.execute("UPDATE accounts SET language = 'de'")
    faulty = await ann.submit(f"/dashboard/test/{organisation_id}/keys", name="")
    assert faulty.status_code == 422
    async with services.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM mails") == 0
    await ann.submit(f"/dashboard/test/{organisation_id}/people", email="bob@ours.test", role="admin")
    recipient, text = await last_mail(services)
    assert recipient == ANN
    assert "Mitglieder oder Rollen" in text


async def test_a_new_authenticator_app_ends_other_sessions_and_links_and_is_mailed(
    services: Services, ann: Person, person: MakePerson, clock: ManualClock
) -> None:
    other = person()
    await other.sign_in(ANN)
    await other.submit("/dashboard/password", email=ANN)
    link = await link_in_last_mail(services)
    clock.advance(minutes=1)
    page = await ann.submit("/dashboard/you/second-factor")
    secret = page.text.partition('<code class="secret">')[2].partition("<")[0]
    answer = await ann.submit("/dashboard/you/second-factor/enable", code=pyotp.TOTP(secret).at(clock()))
    assert answer.status_code == 200
    assert (await last_mail(services))[1].startswith("An authenticator app was added")
    assert (await other.get("/dashboard/you")).status_code == 303
    assert (await ann.get(link)).status_code == 404
