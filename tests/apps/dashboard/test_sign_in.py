"""Signing in and out, the second factor, sessions, and new passwords."""

from collections.abc import Callable

import pyotp
import pytest

from tests.support.clock import ManualClock
from tests.support.people import PASSWORD, Person, add_user, last_mail, link_in_last_mail
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.selling.users.create_user import disable_user, require_user
from tonne.selling.users.password_requests import LINKS_PER_HOUR, insert_request

MakePerson = Callable[[], Person]
ANN = "ann@ours.test"
NEW_PASSWORD = "nine purple umbrellas"  # noqa: S105 - of test users


@pytest.fixture
async def ann(services: Services, world: World, person: MakePerson) -> Person:
    """Has a user, and is not signed in yet."""
    await add_user(services, ANN, world.ours_test.scope.organisation_id)
    return person()


def code_of(secret: str, clock: ManualClock) -> str:
    return pyotp.TOTP(secret).at(clock())


async def turn_on_second_factor(person: Person, clock: ManualClock) -> tuple[str, list[str]]:
    """Returns the secret and the recovery codes."""
    page = await person.submit("/dashboard/you/second-factor")
    secret = page.text.partition('<code class="secret">')[2].partition("<")[0]
    page = await person.submit("/dashboard/you/second-factor/enable", code=code_of(secret, clock))
    assert page.status_code == 200
    codes = [part.partition("<")[0] for part in page.text.partition('class="codes"')[2].split("<code>")[1:11]]
    return secret, codes


async def test_signing_in_leads_to_the_organisation(ann: Person, world: World) -> None:
    answer = await ann.sign_in(ANN.upper())
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard")
    answer = await ann.get("/dashboard")
    assert answer.headers["location"] == f"/dashboard/live/{world.ours_test.scope.organisation_id}"


async def test_the_session_cookie_is_out_of_reach_of_scripts_and_other_sites(ann: Person) -> None:
    cookie = (await ann.sign_in(ANN)).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Path=/" in cookie


@pytest.mark.parametrize(("email", "password"), [(ANN, "wrong"), ("nobody@ours.test", PASSWORD)])
async def test_a_wrong_password_and_an_unknown_user_get_the_same_answer(ann: Person, email: str, password: str) -> None:
    answer = await ann.sign_in(email, password)
    assert answer.status_code == 422
    assert "The e-mail address or the password is wrong." in answer.text
    assert "tonne_session" not in ann.http.cookies


async def test_both_empty_fields_are_named_and_the_first_has_the_focus(ann: Person) -> None:
    answer = await ann.sign_in("", "")
    assert answer.text.index("Enter your e-mail address.") < answer.text.index("Enter your password.")
    assert answer.text.count("autofocus") == 1


async def test_attempts_for_one_address_are_limited(ann: Person) -> None:
    answers = [(await ann.sign_in(ANN, f"wrong {number}")).text for number in range(11)]
    assert "Too many attempts" not in answers[9]
    assert "Too many attempts" in answers[10]
    assert "Too many attempts" in (await ann.sign_in(ANN)).text


async def test_a_page_asks_to_sign_in_and_comes_back_to_it(ann: Person, world: World) -> None:
    path = f"/dashboard/test/{world.ours_test.scope.organisation_id}/people"
    answer = await ann.get(path)
    assert answer.headers["location"] == f"/dashboard/sign-in?next={path}"
    answer = await ann.submit("/dashboard/sign-in", email=ANN, password=PASSWORD, next=path)
    assert answer.headers["location"] == path


@pytest.mark.parametrize(
    "goal", ["https://evil.example", "//evil.example", "/\\evil.example", "/dashboard//evil.example", "/offset/x", ""]
)
async def test_signing_in_never_leads_to_another_site(ann: Person, goal: str) -> None:
    answer = await ann.submit("/dashboard/sign-in", email=ANN, password=PASSWORD, next=goal)
    assert answer.headers["location"] == "/dashboard"


async def test_forms_of_other_sites_are_refused(ann: Person) -> None:
    answer = await ann.http.post(
        "/dashboard/sign-in", data={"form_token": "x" * 22, "email": ANN, "password": PASSWORD}
    )
    assert answer.status_code == 400
    assert "tonne_session" not in ann.http.cookies


async def test_a_session_that_someone_planted_is_not_taken_over(ann: Person) -> None:
    ann.http.cookies.set("tonne_session", "a" * 43, domain="tonne.test")
    await ann.sign_in(ANN)
    tokens = [cookie.value for cookie in ann.http.cookies.jar if cookie.name == "tonne_session"]
    assert "a" * 43 not in tokens


async def test_signing_out_ends_the_session(ann: Person) -> None:
    await ann.sign_in(ANN)
    token = ann.http.cookies["tonne_session"]
    await ann.submit("/dashboard/sign-out")
    ann.http.cookies.set("tonne_session", token, domain="tonne.test")
    assert (await ann.get("/dashboard/you")).status_code == 303


async def test_a_session_ends_after_a_day_without_requests(ann: Person, clock: ManualClock) -> None:
    await ann.sign_in(ANN)
    for _ in range(3):
        clock.advance(hours=23)
        assert (await ann.get("/dashboard/you")).status_code == 200
    clock.advance(hours=25)
    assert (await ann.get("/dashboard/you")).status_code == 303


async def test_a_session_ends_after_two_weeks(ann: Person, clock: ManualClock) -> None:
    await ann.sign_in(ANN)
    for _ in range(14):
        clock.advance(hours=23, minutes=59)
        assert (await ann.get("/dashboard/you")).status_code == 200
    clock.advance(hours=1)
    assert (await ann.get("/dashboard/you")).status_code == 303


async def test_a_disabled_user_is_signed_out_and_stays_out(services: Services, ann: Person) -> None:
    await ann.sign_in(ANN)
    async with services.database.transaction() as tx:
        await disable_user(tx, await require_user(tx, ANN), by=TESTER.now())
    assert (await ann.get("/dashboard/you")).status_code == 303
    assert (await ann.sign_in(ANN)).status_code == 422


async def test_the_second_factor_is_asked_for_at_the_next_sign_in(
    ann: Person, person: MakePerson, clock: ManualClock
) -> None:
    await ann.sign_in(ANN)
    secret, _ = await turn_on_second_factor(ann, clock)
    clock.advance(seconds=60)
    again = person()
    assert (await again.sign_in(ANN)).headers["location"] == "/dashboard/code?next=/dashboard"
    assert (await again.get("/dashboard/you")).headers["location"].startswith("/dashboard/code")
    assert (await again.submit("/dashboard/code", code="000000")).status_code == 422
    answer = await again.submit("/dashboard/code", code=code_of(secret, clock))
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard")
    assert (await again.get("/dashboard/you")).status_code == 200


async def test_a_code_works_once(ann: Person, person: MakePerson, clock: ManualClock) -> None:
    await ann.sign_in(ANN)
    secret, _ = await turn_on_second_factor(ann, clock)
    clock.advance(seconds=60)
    code, first, second = code_of(secret, clock), person(), person()
    for other in (first, second):
        await other.sign_in(ANN)
    assert (await first.submit("/dashboard/code", code=code)).status_code == 303
    assert (await second.submit("/dashboard/code", code=code)).status_code == 422


async def test_a_recovery_code_works_once(ann: Person, person: MakePerson, clock: ManualClock) -> None:
    await ann.sign_in(ANN)
    _, codes = await turn_on_second_factor(ann, clock)
    for status in (303, 422):
        again = person()
        await again.sign_in(ANN)
        assert (await again.submit("/dashboard/code", code=codes[0].upper())).status_code == status


async def test_guessing_codes_is_limited(ann: Person, person: MakePerson, clock: ManualClock) -> None:
    await ann.sign_in(ANN)
    await turn_on_second_factor(ann, clock)
    again = person()
    await again.sign_in(ANN)
    answers = [(await again.submit("/dashboard/code", code=f"{number:06}")).text for number in range(10)]
    assert "Too many attempts" in answers[-1]


async def test_turning_on_the_second_factor_ends_the_other_sessions(
    ann: Person, person: MakePerson, clock: ManualClock
) -> None:
    other = person()
    await other.sign_in(ANN)
    await ann.sign_in(ANN)
    await turn_on_second_factor(ann, clock)
    assert (await other.get("/dashboard/you")).status_code == 303
    assert (await ann.get("/dashboard/you")).status_code == 200


async def test_turning_off_the_second_factor_needs_a_code(ann: Person, person: MakePerson, clock: ManualClock) -> None:
    await ann.sign_in(ANN)
    secret, _ = await turn_on_second_factor(ann, clock)
    assert (await ann.submit("/dashboard/you/second-factor/disable", code="000000")).status_code == 422
    clock.advance(seconds=60)
    answer = await ann.submit("/dashboard/you/second-factor/disable", code=code_of(secret, clock))
    assert answer.status_code == 303
    assert (await person().sign_in(ANN)).headers["location"] == "/dashboard"


async def test_new_recovery_codes_replace_the_old_ones(ann: Person, person: MakePerson, clock: ManualClock) -> None:
    await ann.sign_in(ANN)
    secret, old = await turn_on_second_factor(ann, clock)
    clock.advance(seconds=60)
    page = await ann.submit("/dashboard/you/second-factor/codes", code=code_of(secret, clock))
    assert page.text.count("<code>") >= 10
    again = person()
    await again.sign_in(ANN)
    assert (await again.submit("/dashboard/code", code=old[0])).status_code == 422


async def test_a_forgotten_password_is_replaced_by_the_link_in_a_mail(
    ann: Person, person: MakePerson, services: Services
) -> None:
    signed_in = person()
    await signed_in.sign_in(ANN)
    assert "is on its way" in (await ann.submit("/dashboard/password", email=ANN)).text
    link = await link_in_last_mail(services)
    assert (await ann.get(link)).status_code == 200
    answer = await ann.submit(link, password=NEW_PASSWORD, repeat=NEW_PASSWORD)
    assert answer.headers["location"] == "/dashboard/sign-in?changed=1"
    assert (await last_mail(services))[1].startswith("Your password for the dashboard was changed")
    assert (await signed_in.get("/dashboard/you")).status_code == 303
    assert (await ann.sign_in(ANN)).status_code == 422
    assert (await ann.sign_in(ANN, NEW_PASSWORD)).status_code == 303
    assert (await ann.submit(link, password=PASSWORD, repeat=PASSWORD)).status_code == 404


async def test_strangers_cannot_learn_who_has_an_account(ann: Person, services: Services) -> None:
    known = (await ann.submit("/dashboard/password", email=ANN)).text.replace(ANN, "")
    unknown = (await ann.submit("/dashboard/password", email="nobody@ours.test")).text.replace("nobody@ours.test", "")
    assert known == unknown
    # The same work for both: only the job looks them up.
    async with services.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM password_requests") == 2
        assert await connection.fetchval("SELECT count(*) FROM mails") == 0
    assert await services.mail_password_links.run_once()
    assert not await services.mail_password_links.run_once()
    assert (await last_mail(services))[0] == ANN


async def test_a_user_gets_few_mails_whoever_asks_for_a_new_password(services: Services, ann: Person) -> None:
    async with services.database.connection() as connection:
        for number in range(50):
            await insert_request(connection, ANN, f"stranger {number}", services.clock())
        while await services.mail_password_links.run_once():
            pass
        assert await connection.fetchval("SELECT count(*) FROM mails") == LINKS_PER_HOUR
    assert (await ann.get(await link_in_last_mail(services))).status_code == 200


async def test_a_link_for_a_new_password_ends_with_a_change_of_the_password(ann: Person, services: Services) -> None:
    await ann.submit("/dashboard/password", email=ANN)
    link = await link_in_last_mail(services)
    await ann.sign_in(ANN)
    await ann.submit("/dashboard/you/password", old_password=PASSWORD, password=NEW_PASSWORD, repeat=NEW_PASSWORD)
    assert (await ann.get(link)).status_code == 404


async def test_the_link_for_a_new_password_expires(ann: Person, services: Services, clock: ManualClock) -> None:
    await ann.submit("/dashboard/password", email=ANN)
    link = await link_in_last_mail(services)
    clock.advance(minutes=61)
    answer = await ann.get(link)
    assert answer.status_code == 404
    assert "has expired or was used before" in answer.text


@pytest.mark.parametrize(
    ("password", "repeat", "part"),
    [("short", "short", "at least 12"), (NEW_PASSWORD, PASSWORD, "passwords differ"), ("", "", "at least 12")],
)
async def test_faults_of_a_new_password_are_shown_beside_the_field(
    ann: Person, services: Services, password: str, repeat: str, part: str
) -> None:
    await ann.submit("/dashboard/password", email=ANN)
    answer = await ann.submit(await link_in_last_mail(services), password=password, repeat=repeat)
    assert answer.status_code == 422
    assert part in answer.text


async def test_changing_the_password_needs_the_current_one_and_ends_other_sessions(
    ann: Person, person: MakePerson
) -> None:
    other = person()
    await other.sign_in(ANN)
    await ann.sign_in(ANN)
    fields = {"password": NEW_PASSWORD, "repeat": NEW_PASSWORD}
    wrong = await ann.submit("/dashboard/you/password", old_password="wrong", **fields)  # noqa: S106
    assert "Your current password is wrong." in wrong.text
    assert (await ann.submit("/dashboard/you/password", old_password=PASSWORD, **fields)).status_code == 303
    assert (await other.get("/dashboard/you")).status_code == 303
    assert (await ann.get("/dashboard/you")).status_code == 200


async def test_sessions_are_listed_and_can_be_ended(ann: Person, person: MakePerson, services: Services) -> None:
    phone = person()
    phone.http.headers["user-agent"] = "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0) AppleWebKit/605.1 Safari/604.1"
    await phone.sign_in(ANN)
    await ann.sign_in(ANN)
    assert "Safari on iPhone" in (await ann.get("/dashboard/you")).text
    async with services.database.connection() as connection:
        sessions = await connection.fetch("SELECT id FROM user_sessions WHERE agent LIKE '%iPhone%'")
    assert (await ann.submit(f"/dashboard/you/sessions/{sessions[0]['id']}/end")).status_code == 303
    assert (await phone.get("/dashboard/you")).status_code == 303
    await phone.sign_in(ANN)
    await ann.submit("/dashboard/you/sessions/end")
    assert (await phone.get("/dashboard/you")).status_code == 303


async def test_nobody_ends_the_session_of_another_user(
    ann: Person, person: MakePerson, services: Services, world: World
) -> None:
    await add_user(services, "eve@theirs.test", world.theirs_test.scope.organisation_id, name="Eve")
    eve = person()
    await eve.sign_in("eve@theirs.test")
    await ann.sign_in(ANN)
    async with services.database.connection() as connection:
        sessions = await connection.fetch(
            "SELECT user_sessions.id FROM user_sessions JOIN users ON users.id = user_id WHERE email = $1", ANN
        )
    await eve.submit(f"/dashboard/you/sessions/{sessions[0]['id']}/end")
    assert (await ann.get("/dashboard/you")).status_code == 200
