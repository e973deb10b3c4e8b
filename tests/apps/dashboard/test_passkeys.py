"""Passkeys: adding, signing in with them alone and after the password, and removing them."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.apps.dashboard.test_sign_in import code_of, turn_on_second_factor
from tests.support.authenticator import Authenticator, encode
from tests.support.clock import ManualClock
from tests.support.people import Person, add_user, last_mail
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings
from tonne.selling.users.second_factor.passkey_domain import passkey_domain

MakePerson = Callable[[], Person]
ANN, BOB = "ann@ours.test", "bob@ours.test"
ORIGIN, DOMAIN = "http://localhost:8080", "localhost"
YOU = "/dashboard/you"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, public_url=ORIGIN)


@pytest.fixture
async def ann(services: Services, world: World, person: MakePerson) -> Person:
    """Is signed in with the password."""
    await add_user(services, ANN, world.ours_test.scope.organisation_id)
    someone = person()
    await someone.sign_in(ANN)
    return someone


async def options(person: Person, path: str) -> dict[str, Any]:
    answer = await person.submit(f"{path}/options")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def add_passkey(person: Person, name: str = "Phone") -> Authenticator:
    authenticator = Authenticator(ORIGIN, DOMAIN)
    credential = authenticator.create(await options(person, f"{YOU}/passkeys"))
    answer = await person.submit(f"{YOU}/passkeys", credential=credential, passkey_name=name)
    assert answer.status_code in {200, 303}, answer.text
    return authenticator


async def sign_in(person: Person, authenticator: Authenticator) -> int:
    """The status after signing in with the passkey alone."""
    credential = authenticator.get(await options(person, "/dashboard/passkey"))
    return (await person.submit("/dashboard/passkey", credential=credential)).status_code


async def fetch(services: Services, sql: str) -> Any:
    async with services.database.connection() as connection:
        return await connection.fetchval(sql)


async def test_a_passkey_alone_signs_in_and_counts_as_a_second_factor(
    ann: Person, person: MakePerson, services: Services, clock: ManualClock
) -> None:
    phone = await add_passkey(ann, "Ann's phone")
    recipient, text = await last_mail(services)
    assert (recipient, text.partition(" was added")[0]) == (ANN, "The passkey “Ann's phone”")
    page = (await ann.get(YOU)).text
    assert "Ann&#39;s phone" in page
    assert "Never" in page
    clock.advance(minutes=1)
    again = person()
    assert await sign_in(again, phone) == 303
    assert (await again.get(YOU)).status_code == 200
    assert "Never" not in (await again.get(YOU)).text
    assert await fetch(services, "SELECT is_strong FROM user_sessions ORDER BY created_at DESC LIMIT 1")
    assert await fetch(services, "SELECT action FROM audit_log ORDER BY id DESC LIMIT 1") == "user.signed_in"


async def test_the_first_passkey_brings_recovery_codes_and_ends_the_other_sessions(
    services: Services, ann: Person, person: MakePerson
) -> None:
    other = person()
    await other.sign_in(ANN)
    credential = Authenticator(ORIGIN, DOMAIN).create(await options(ann, f"{YOU}/passkeys"))
    page = await ann.submit(f"{YOU}/passkeys", credential=credential, passkey_name="Phone")
    codes = [part.partition("<")[0] for part in page.text.partition('class="codes"')[2].split("<code>")[1:11]]
    assert len(codes) == 10
    assert (await other.get(YOU)).status_code == 303
    assert (await other.sign_in(ANN)).headers["location"].startswith("/dashboard/code")
    assert "recovery codes" in (await other.get("/dashboard/code")).text
    assert (await other.submit("/dashboard/code", code=codes[0])).status_code == 303
    second = await add_passkey(ann, "Laptop")
    assert (await other.get(YOU)).status_code == 200, "a second passkey ends no session"
    page = await ann.submit(f"{YOU}/second-factor/codes")
    assert page.text.partition('class="codes"')[2].count("<code>") == 10
    assert (await other.get(YOU)).status_code == 303, "new recovery codes end other sessions"
    assert await fetch(services, "SELECT count(*) FROM recovery_codes WHERE used_at IS NULL") == 10
    assert await sign_in(person(), second) == 303


async def test_a_passkey_is_the_second_factor_after_the_password(ann: Person, person: MakePerson) -> None:
    phone, again = await add_passkey(ann), person()
    assert (await again.sign_in(ANN)).headers["location"] == "/dashboard/code?next=/dashboard"
    asked = await options(again, "/dashboard/code/passkey")
    assert [each["id"] for each in asked["allowCredentials"]] == [encode(phone.credential_id)]
    answer = await again.submit("/dashboard/code/passkey", credential=phone.get(asked), next="/dashboard/you")
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard/you")
    assert (await again.get(YOU)).status_code == 200


async def test_an_answer_works_once_and_only_in_the_browser_that_asked(ann: Person, person: MakePerson) -> None:
    phone, first, second = await add_passkey(ann), person(), person()
    asked = await options(first, "/dashboard/passkey")
    assert asked["userVerification"] == "required"
    credential = phone.get(asked)
    await options(second, "/dashboard/passkey")
    assert (await second.submit("/dashboard/passkey", credential=credential)).status_code == 422
    assert (await first.submit("/dashboard/passkey", credential=credential)).status_code == 303
    assert (await first.submit("/dashboard/passkey", credential=credential)).status_code == 422
    # A wrong answer uses up the challenge, too.
    asked = await options(first, "/dashboard/passkey")
    assert (await first.submit("/dashboard/passkey", credential="{}")).status_code == 422
    assert (await first.submit("/dashboard/passkey", credential=phone.get(asked))).status_code == 422


async def test_a_challenge_expires(ann: Person, person: MakePerson, clock: ManualClock) -> None:
    phone, again = await add_passkey(ann), person()
    asked = await options(again, "/dashboard/passkey")
    clock.advance(minutes=6)
    answer = await again.submit("/dashboard/passkey", credential=phone.get(asked))
    assert answer.status_code == 422
    assert "This page has expired." in answer.text


@pytest.mark.parametrize("fault", ["origin", "domain", "unverified", "copied", "another_user", "no_user", "unknown"])
async def test_wrong_answers_are_refused(ann: Person, person: MakePerson, fault: str) -> None:
    phone = await add_passkey(ann)
    assert await sign_in(person(), phone) == 303
    match fault:
        case "origin":
            phone.origin = "http://localhost:8081"
        case "domain":
            phone.domain = "tonne.test"
        case "unverified":
            phone.verifies_user = False
        case "copied":
            phone.sign_count = 0
        case "another_user":
            phone.user_handle = encode(b"usr_00000000000000000000000000")
        case "no_user":
            phone.user_handle = ""
        case _:
            phone.credential_id = b"unknown"
    stranger = person()
    assert await sign_in(stranger, phone) == 422
    assert "tonne_session" not in stranger.http.cookies


async def test_the_passkey_of_another_user_is_no_second_factor(
    ann: Person, person: MakePerson, services: Services, world: World
) -> None:
    await add_passkey(ann)
    await add_user(services, BOB, world.ours_test.scope.organisation_id)
    bob, eve = person(), person()
    await bob.sign_in(BOB)
    of_bob = await add_passkey(bob)
    await eve.sign_in(ANN)
    asked = await options(eve, "/dashboard/code/passkey")
    assert (await eve.submit("/dashboard/code/passkey", credential=of_bob.get(asked))).status_code == 422
    assert (await eve.get(YOU)).headers["location"].startswith("/dashboard/code")


@pytest.mark.parametrize("field", ["origin", "domain", "verifies_user"])
async def test_a_wrong_new_passkey_is_not_added(ann: Person, services: Services, field: str) -> None:
    authenticator = Authenticator(ORIGIN, DOMAIN)
    setattr(authenticator, field, False if field == "verifies_user" else "evil.example")
    credential = authenticator.create(await options(ann, f"{YOU}/passkeys"))
    answer = await ann.submit(f"{YOU}/passkeys", credential=credential, passkey_name="Phone")
    assert answer.status_code == 422
    assert "The passkey could not be added." in answer.text
    assert await fetch(services, "SELECT count(*) FROM passkeys") == 0


async def test_a_passkey_is_added_only_with_a_challenge_of_this_session(
    ann: Person, person: MakePerson, services: Services
) -> None:
    other, authenticator = person(), Authenticator(ORIGIN, DOMAIN)
    await other.sign_in(ANN)
    credential = authenticator.create(await options(ann, f"{YOU}/passkeys"))
    assert (await other.submit(f"{YOU}/passkeys", credential=credential, passkey_name="Phone")).status_code == 422
    assert (await ann.submit(f"{YOU}/passkeys", credential=credential, passkey_name="Phone")).status_code == 200
    assert (await ann.submit(f"{YOU}/passkeys", credential=credential, passkey_name="Phone")).status_code == 422
    assert await fetch(services, "SELECT count(*) FROM passkeys") == 1


async def test_the_same_passkey_cannot_be_added_twice(ann: Person) -> None:
    phone = await add_passkey(ann)
    asked = await options(ann, f"{YOU}/passkeys")
    assert [each["id"] for each in asked["excludeCredentials"]] == [encode(phone.credential_id)]
    answer = await ann.submit(f"{YOU}/passkeys", credential=phone.create(asked), passkey_name="Again")
    assert "registered already" in answer.text


async def test_a_change_needs_a_recent_sign_in(ann: Person, services: Services, clock: ManualClock) -> None:
    await add_passkey(ann)
    passkey_id = await fetch(services, "SELECT id FROM passkeys")
    clock.advance(minutes=31)
    answer = await ann.submit(f"{YOU}/passkeys/options")
    assert (answer.status_code, answer.json()["error"]["error_code"]) == (409, "sign_in_too_old")
    answer = await ann.submit(f"{YOU}/passkeys/{passkey_id}/remove")
    assert answer.status_code == 303
    assert answer.headers["location"] == f"/dashboard/sign-in?again=1&next={YOU}/passkeys/{passkey_id}"
    assert await fetch(services, "SELECT count(*) FROM passkeys") == 1


async def test_removing_the_last_passkey_leaves_the_password(
    ann: Person, person: MakePerson, services: Services
) -> None:
    phone = await add_passkey(ann)
    passkey_id = await fetch(services, "SELECT id FROM passkeys")
    assert "your password alone is enough" in (await ann.get(f"{YOU}/passkeys/{passkey_id}")).text
    assert (await ann.submit(f"{YOU}/passkeys/{passkey_id}/remove")).status_code == 303
    assert "The passkey “Phone” was removed" in (await last_mail(services))[1]
    assert await fetch(services, "SELECT action FROM audit_log ORDER BY id DESC LIMIT 1") == "user.passkey_removed"
    assert await fetch(services, "SELECT count(*) FROM recovery_codes") == 0
    assert await sign_in(person(), phone) == 422
    assert (await person().sign_in(ANN)).headers["location"] == "/dashboard"
    assert (await ann.submit(f"{YOU}/passkeys/{passkey_id}/remove")).status_code == 404


async def test_a_passkey_is_renamed(ann: Person, person: MakePerson, services: Services, clock: ManualClock) -> None:
    phone = await add_passkey(ann)
    passkey_id = await fetch(services, "SELECT id FROM passkeys")
    path = f"{YOU}/passkeys/{passkey_id}"
    # A name is no secret and changes no right: it needs no recent sign-in.
    clock.advance(minutes=31)
    assert 'value="Phone"' in (await ann.get(path)).text
    for name, message in (("  ", "Enter a name"), ("x" * 101, "100")):
        refused = await ann.submit(f"{path}/rename", passkey_name=name)
        assert (refused.status_code, message in refused.text) == (422, True), name
    answer = await ann.submit(f"{path}/rename", passkey_name=" Ann's <new> phone ")
    assert answer.headers["location"] == f"{YOU}?done=passkey_renamed"
    assert "Ann&#39;s &lt;new&gt; phone" in (await ann.get(YOU)).text
    assert (await ann.submit(f"{path}/rename", passkey_name="Ann's <new> phone")).status_code == 303
    renamed = "SELECT count(*) FROM audit_log WHERE action = 'user.passkey_renamed' AND starts_with(actor, 'user:')"
    assert await fetch(services, renamed) == 1, "the same name again is no change"
    assert await sign_in(person(), phone) == 303


async def test_the_passkeys_of_others_cannot_be_renamed_or_removed(
    ann: Person, person: MakePerson, services: Services, world: World
) -> None:
    await add_passkey(ann)
    await add_user(services, BOB, world.ours_test.scope.organisation_id)
    passkey_id = await fetch(services, "SELECT id FROM passkeys")
    bob, path = person(), f"{YOU}/passkeys/{passkey_id}"
    await bob.sign_in(BOB)
    assert (await bob.get(path)).status_code == 404
    assert (await bob.submit(f"{path}/remove")).status_code == 404
    assert (await bob.submit(f"{path}/rename", passkey_name="Bob's")).status_code == 404
    assert await fetch(services, "SELECT count(*) FROM passkeys WHERE name = 'Phone'") == 1


async def test_an_operator_keeps_one_second_factor(services: Services, person: MakePerson) -> None:
    await add_user(services, "olga@tonne.test")
    olga = person()
    await olga.sign_in("olga@tonne.test")
    await add_passkey(olga)
    passkey_id = await fetch(services, "SELECT id FROM passkeys")
    assert "It is your only second factor" in (await olga.get(f"{YOU}/passkeys/{passkey_id}")).text
    answer = await olga.submit(f"{YOU}/passkeys/{passkey_id}/remove")
    assert (answer.status_code, await fetch(services, "SELECT count(*) FROM passkeys")) == (422, 1)
    assert "Operators need a second factor." in answer.text
    await add_passkey(olga, "Laptop")
    assert (await olga.submit(f"{YOU}/passkeys/{passkey_id}/remove")).status_code == 303


async def test_an_operator_keeps_the_authenticator_app_without_a_passkey(
    services: Services, person: MakePerson, clock: ManualClock
) -> None:
    await add_user(services, "olga@tonne.test")
    olga = person()
    await olga.sign_in("olga@tonne.test")
    secret, _ = await turn_on_second_factor(olga, clock)
    clock.advance(minutes=1)
    answer = await olga.submit(f"{YOU}/second-factor/disable", code=code_of(secret, clock))
    assert answer.status_code == 422
    assert "Operators need a second factor." in answer.text
    assert await fetch(services, "SELECT totp_enabled FROM users WHERE is_operator")
    await add_passkey(olga)
    clock.advance(minutes=1)
    assert (await olga.submit(f"{YOU}/second-factor/disable", code=code_of(secret, clock))).status_code == 303
    assert await fetch(services, "SELECT count(*) FROM recovery_codes") > 0


async def test_malformed_answers_are_refused(ann: Person) -> None:
    for credential in ("", "[]", "{", json.dumps({"id": "€", "rawId": "€", "type": "public-key", "response": {}})):
        await options(ann, f"{YOU}/passkeys")
        answer = await ann.submit(f"{YOU}/passkeys", credential=credential, passkey_name="Phone")
        assert answer.status_code == 422


@pytest.mark.parametrize(
    ("public_url", "reason"),
    [
        ("https://offsets.example.com", ""),
        ("http://localhost:8080", ""),
        ("http://127.0.0.1:8080", "at the address 127.0.0.1"),
        ("https://[2001:db8::1]", "at the address [2001:db8::1]"),
        ("http://offsets.example.com", "over https only"),
    ],
)
def test_passkeys_need_a_name_and_https(public_url: str, reason: str) -> None:
    unavailable = passkey_domain(Settings(public_url=public_url)).unavailable
    assert reason in unavailable
    assert bool(reason) == bool(unavailable)


@pytest.mark.parametrize(
    ("public_url", "origin"),
    [
        ("https://Offsets.example.com/", "https://offsets.example.com"),
        ("https://offsets.example.com:443", "https://offsets.example.com"),
        ("https://offsets.example.com:8443/shop", "https://offsets.example.com:8443"),
    ],
)
def test_the_origin_is_that_of_the_browser(public_url: str, origin: str) -> None:
    assert passkey_domain(Settings(public_url=public_url)).origin == origin
