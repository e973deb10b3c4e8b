"""Signing in by OpenID Connect, against a provider of the test's own."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import msgspec
import pytest

from tests.apps.dashboard.test_sign_in import code_of, turn_on_second_factor
from tests.support.clock import ManualClock
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcServer, oidc_server
from tests.support.people import PASSWORD, Person, add_user, last_mail
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.load_settings import load_settings
from tonne.platform.settings.settings import Settings, SettingsError
from tonne.selling.users.create_user import disable_user, require_user
from tonne.selling.users.links import invite
from tonne.selling.users.model import Role

MakePerson = Callable[[], Person]
ANN, NEW = "ann@ours.test", "new@ours.test"


@pytest.fixture
async def provider(clock: ManualClock) -> AsyncIterator[OidcServer]:
    async with oidc_server(clock) as server:
        server.claims = {"email": ANN, "email_verified": True, "name": "Ann Lee"}
        yield server


@pytest.fixture
def settings(settings: Settings, provider: OidcServer) -> Settings:
    return msgspec.structs.replace(
        settings,
        oidc_issuer=provider.url,
        oidc_client_id=CLIENT_ID,
        oidc_client_secret=CLIENT_SECRET,
        oidc_email_domains="ours.test",
    )


@pytest.fixture
async def ann(services: Services, world: World, person: MakePerson) -> Person:
    """Has a user, and is not signed in yet."""
    await add_user(services, ANN, world.ours_test.scope.organisation_id)
    return person()


async def sign_in(person: Person, provider: OidcServer, goal: str = "/dashboard/you") -> httpx.Response:
    answer = await person.get(f"/dashboard/oidc?next={goal}")
    assert answer.status_code == 303, answer.text
    return await person.get(provider.authorise(answer.headers["location"]))


async def fetch(services: Services, sql: str) -> Any:
    async with services.database.connection() as connection:
        return await connection.fetchval(sql)


async def test_a_user_signs_in_by_the_verified_address_and_then_by_the_account(
    ann: Person, person: MakePerson, provider: OidcServer, services: Services
) -> None:
    assert "Sign in with single sign-on" in (await ann.get("/dashboard/sign-in")).text
    answer = await sign_in(ann, provider)
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard/you")
    assert ANN in (await ann.get("/dashboard/you")).text
    assert (await last_mail(services))[1].startswith("You can now sign in to the dashboard with single sign-on.")
    async with services.database.connection() as connection:
        actions = [row["action"] for row in await connection.fetch("SELECT action FROM audit_log ORDER BY id")]
    assert actions[-2:] == ["user.identity_linked", "user.signed_in"]
    # The address may change at the provider: the account is the same.
    provider.claims["email"] = "ann.new@ours.test"
    again = person()
    assert (await sign_in(again, provider)).status_code == 303
    assert ANN in (await again.get("/dashboard/you")).text


async def test_another_account_with_the_same_address_is_refused(
    ann: Person, person: MakePerson, provider: OidcServer
) -> None:
    await sign_in(ann, provider)
    provider.claims["sub"] = "person-2"
    answer = await sign_in(person(), provider)
    assert answer.status_code == 422
    assert "linked to another account" in answer.text


async def test_the_second_factor_is_still_asked_for(
    ann: Person, person: MakePerson, provider: OidcServer, clock: ManualClock
) -> None:
    await ann.sign_in(ANN)
    secret, _ = await turn_on_second_factor(ann, clock)
    clock.advance(minutes=1)
    again = person()
    assert (await sign_in(again, provider)).headers["location"] == "/dashboard/code?next=/dashboard/you"
    assert (await again.get("/dashboard/you")).headers["location"].startswith("/dashboard/code")
    assert (await again.submit("/dashboard/code", code=code_of(secret, clock))).status_code == 303


async def test_invited_people_become_users_without_a_password(
    services: Services, world: World, person: MakePerson, provider: OidcServer, clock: ManualClock
) -> None:
    organisation_id = world.ours_test.scope.organisation_id
    async with services.database.transaction() as tx:
        await invite(
            tx,
            services.settings,
            organisation_id,
            NEW,
            Role.FINANCE,
            granter=None,
            invited_by="Ann",
            by=TESTER.at(clock()),
        )
    provider.claims = {"email": NEW.upper(), "email_verified": "true", "name": "Nell\nRoy"}
    new = person()
    assert (await sign_in(new, provider)).status_code == 303
    page = await new.get(f"/dashboard/live/{organisation_id}/people")
    assert (page.status_code, "Nell Roy" in page.text) == (200, True)
    assert "You sign in without a password." in (await new.get("/dashboard/you")).text
    assert await fetch(services, f"SELECT password_hash IS NULL FROM users WHERE email = '{NEW}'")  # noqa: S608
    assert await fetch(services, "SELECT role FROM memberships JOIN users ON users.id = user_id") == "finance"


@pytest.mark.parametrize(
    ("claims", "part"),
    [
        ({"email": "eve@elsewhere.test"}, "with a verified address at ours.test"),
        ({"email": "stranger@ours.test"}, "There is no user for stranger@ours.test."),
        ({"email_verified": False}, "with a verified address at ours.test"),
        ({"email_verified": None}, "with a verified address at ours.test"),
        ({"email": None}, "with a verified address at ours.test"),
        ({"aud": "another client"}, "The answer of the sign-in provider is not valid."),
        ({"iss": "https://evil.example"}, "The answer of the sign-in provider is not valid."),
        ({"exp": 1}, "The answer of the sign-in provider is not valid."),
        ({"exp": None}, "The answer of the sign-in provider is not valid."),
        ({"nonce": "of another sign-in"}, "The answer of the sign-in provider is not valid."),
        ({"nonce": None}, "The answer of the sign-in provider is not valid."),
        ({"sub": ""}, "did not work"),
    ],
)
async def test_wrong_claims_are_refused(
    ann: Person, provider: OidcServer, services: Services, claims: dict[str, Any], part: str
) -> None:
    provider.claims.update(claims)
    answer = await sign_in(ann, provider)
    assert answer.status_code == 422
    assert part in answer.text
    assert "tonne_session" not in ann.http.cookies
    assert await fetch(services, "SELECT count(*) FROM user_identities") == 0


async def test_a_token_signed_with_the_client_secret_is_refused(ann: Person, provider: OidcServer) -> None:
    provider.signs_with_secret = True
    assert (await sign_in(ann, provider)).status_code == 422


async def test_new_keys_of_the_provider_are_loaded_and_false_keys_refused(
    ann: Person, person: MakePerson, provider: OidcServer
) -> None:
    assert (await sign_in(ann, provider)).status_code == 303
    provider.change_key()
    assert (await sign_in(person(), provider)).status_code == 303
    # Somebody else's key under a known name: the signature is wrong.
    provider.change_key("second")
    assert (await sign_in(person(), provider)).status_code == 422


async def test_an_answer_for_another_browser_or_used_before_is_refused(
    ann: Person, person: MakePerson, provider: OidcServer, clock: ManualClock
) -> None:
    answer = await ann.get("/dashboard/oidc")
    back = provider.authorise(answer.headers["location"])
    eve = person()
    assert "begun in another browser" in (await eve.get(back)).text
    # With an attempt of her own the state differs.
    await eve.get("/dashboard/oidc")
    assert "begun in another browser" in (await eve.get(back)).text
    assert (await ann.get(back)).status_code == 303
    assert (await ann.get(back)).status_code == 422
    answer = await ann.get("/dashboard/oidc")
    back = provider.authorise(answer.headers["location"])
    clock.advance(minutes=11)
    assert "has expired" in (await ann.get(back)).text


async def test_the_code_is_exchanged_with_the_verifier_of_this_browser(
    ann: Person, person: MakePerson, provider: OidcServer
) -> None:
    """A stolen code is worth nothing: neither the provider (PKCE) nor the nonce accepts it elsewhere."""
    stolen = provider.authorise((await ann.get("/dashboard/oidc")).headers["location"])
    eve = person()
    of_eve = provider.authorise((await eve.get("/dashboard/oidc")).headers["location"])
    code, state = stolen.partition("code=")[2].partition("&")[0], of_eve.partition("state=")[2]
    for checks_pkce in (False, True):
        provider.checks_pkce = checks_pkce
        answer = await eve.get(f"/dashboard/oidc/callback?code={code}&state={state}")
        assert answer.status_code == 422
    assert "tonne_session" not in eve.http.cookies


async def test_errors_of_the_provider_are_explained(ann: Person, provider: OidcServer, clock: ManualClock) -> None:
    back = provider.authorise((await ann.get("/dashboard/oidc")).headers["location"])
    state = back.partition("state=")[2]
    answer = await ann.get(f"/dashboard/oidc/callback?error=access_denied&state={state}")
    assert "You did not sign in at the provider." in answer.text
    answer = await ann.get(f"/dashboard/oidc/callback?error=server_error&state={state}")
    assert (answer.status_code, "did not work" in answer.text) == (422, True)
    clock.advance(hours=2)
    provider.is_down = True
    assert "does not respond" in (await ann.get("/dashboard/oidc")).text
    provider.is_down, provider.issuer = False, "https://evil.example"
    assert "does not respond" in (await ann.get("/dashboard/oidc")).text


async def test_a_disabled_user_is_refused(
    ann: Person, person: MakePerson, provider: OidcServer, services: Services, clock: ManualClock
) -> None:
    await sign_in(ann, provider)
    async with services.database.transaction() as tx:
        await disable_user(tx, await require_user(tx, ANN), by=TESTER.at(clock()))
    answer = await sign_in(person(), provider)
    assert (answer.status_code, "Your user is disabled." in answer.text) == (422, True)


@pytest.mark.parametrize("goal", ["https://evil.example", "//evil.example", "/offset/x"])
async def test_it_never_leads_to_another_site(ann: Person, provider: OidcServer, goal: str) -> None:
    assert (await sign_in(ann, provider, goal)).headers["location"] == "/dashboard"


async def test_the_password_still_works(ann: Person) -> None:
    assert (await ann.sign_in(ANN, PASSWORD)).status_code == 303


@pytest.mark.parametrize(
    ("variables", "part"),
    [
        ({"CLIENT_ID": "x"}, "TONNE_OIDC_ISSUER must be set"),
        ({"ISSUER": "https://id.example.com"}, "TONNE_OIDC_CLIENT_ID must be set"),
        ({"ISSUER": "http://id.example.com", "CLIENT_ID": "x"}, "must start with https://"),
        ({"ISSUER": "https://id.example.com?x=1", "CLIENT_ID": "x"}, "query or a fragment"),
        ({"ISSUER": "nonsense", "CLIENT_ID": "x"}, "TONNE_OIDC_ISSUER is not valid"),
        ({"ISSUER": "https://a.b", "CLIENT_ID": "x", "EMAIL_DOMAINS": "@x"}, "TONNE_OIDC_EMAIL_DOMAINS"),
    ],
)
def test_wrong_settings_are_refused(variables: dict[str, str], part: str) -> None:
    with pytest.raises(SettingsError, match=part.replace("?", r"\?")):
        load_settings({f"TONNE_OIDC_{name}": value for name, value in variables.items()})


async def test_without_a_provider_there_is_no_such_page(
    services: Services, person: MakePerson, provider: OidcServer
) -> None:
    # The pages of the dashboard were built with a provider; a service without one answers 404.
    assert provider.url
    plain = Services(services.database, msgspec.structs.replace(services.settings, oidc_issuer=""), services.clock)
    assert plain.dashboard.pages.oidc._gateway is None
    assert "Sign in with" in (await person().get("/dashboard/sign-in")).text
    await plain.health.close()
    await plain.metrics_endpoint.close()
