"""People who sign in to the dashboard in tests."""

import email as mails
import email.policy
import re
import secrets
from functools import cache

import httpx
import pyotp

from tests.support.world import TESTER
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Connection, Database
from tonne.platform.values.context import Actor, ActorKind, new_id, utc_now
from tonne.selling.users.approvals import ApprovalFactor, Approver
from tonne.selling.users.create_user import create_user, grant_role
from tonne.selling.users.model import Role, User, UserSession
from tonne.selling.users.passwords import hash_password
from tonne.selling.users.sign_in import LASTS, hash_token
from tonne.selling.users.store import find_user_by_email, insert_session

PASSWORD = "seven green bicycles"  # noqa: S105 - of test users
TOKEN = re.compile(r'name="form_token" value="([^"]+)"')
LINK = re.compile(r"https?://[^/\s]+(/dashboard/(?:password|invitations)/\S+)")


@cache
def password_hash() -> str:
    """Computed once: it takes long by design."""
    return hash_password(PASSWORD)


async def add_user(
    services: Services, email: str, organisation_id: str | None = None, role: Role = Role.OWNER, name: str = "Ann Lee"
) -> User:
    async with services.database.transaction() as tx:
        user = await create_user(
            tx,
            email,
            name,
            password_hash=password_hash(),
            is_operator=organisation_id is None,
            may_approve=organisation_id is None,
            by=TESTER.now(),
        )
        if organisation_id is not None:
            await grant_role(tx, organisation_id, user.id, role, by=TESTER.now())
    return user


async def sign_in_owner(tx: Connection, email: str, organisation_id: str | None) -> str:
    """A new owner, or without an organisation an operator, with a complete session that had a second factor.

    Returns the cookie.
    """
    now, token = utc_now(), secrets.token_urlsafe(32)
    user = await create_user(
        tx,
        email,
        "Ann Lee",
        password_hash=password_hash(),
        is_operator=organisation_id is None,
        by=TESTER.at(now),
    )
    if organisation_id is not None:
        await grant_role(tx, organisation_id, user.id, Role.OWNER, by=TESTER.at(now))
    session = UserSession(
        new_id("ses"),
        user,
        is_complete=True,
        is_strong=True,
        created_at=now,
        last_seen_at=now,
        expires_at=now + LASTS,
        address="127.0.0.1",
        agent="test",
    )
    await insert_session(tx, session, hash_token(token))
    return f"tonne_session={token}"


class Person:
    """A browser without pages: cookies, and forms with their token."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def get(self, path: str) -> httpx.Response:
        return await self.http.get(path)

    async def submit(self, path: str, /, **fields: str) -> httpx.Response:
        token = self.http.cookies.get("tonne")
        if token is None:
            found = TOKEN.search((await self.get("/dashboard/sign-in")).text)
            assert found is not None
            token = found[1]
        return await self.http.post(path, data={"form_token": token, **fields})

    async def sign_in(self, email: str, password: str = PASSWORD) -> httpx.Response:
        return await self.submit("/dashboard/sign-in", email=email, password=password)


async def operator(services: Services, person: Person, email: str = "olga@tonne.test", name: str = "Olga Berg") -> User:
    """An operator, whom this signs in with a second factor."""
    user = await add_user(services, email, name=name)
    await person.sign_in(email)
    page = await person.submit("/dashboard/you/second-factor")
    secret = page.text.partition('<code class="secret">')[2].partition("<")[0]
    code = pyotp.TOTP(secret).at(services.clock())
    assert (await person.submit("/dashboard/you/second-factor/enable", code=code)).status_code == 200
    return user


async def approver(database: Database, name: str) -> Approver:
    """Another operator, as if signed in with a second factor."""
    async with database.transaction() as tx:
        email = f"{name}@tonne.test"
        found = await find_user_by_email(tx, email)
        user = found[0] if found else None
        if user is None:
            rights = {"is_operator": True, "may_approve": True}
            user = await create_user(tx, email, name, password_hash=None, **rights, by=TESTER.now())
    return Approver(Actor(ActorKind.USER, user.id), "ses_of_a_test", ApprovalFactor.SECOND_FACTOR)


async def last_mails(services: Services) -> list[tuple[str, str]]:
    """The recipients and the texts of the newest mails, newest first."""
    async with services.database.connection() as connection:
        rows = await connection.fetch("SELECT recipients, message FROM mails ORDER BY created_at DESC, id DESC LIMIT 3")
    bodies = [
        mails.message_from_bytes(row["message"], policy=email.policy.default).get_body(("plain",)) for row in rows
    ]
    return [(row["recipients"][0], body.get_content()) for row, body in zip(rows, bodies, strict=True) if body]


async def last_mail(services: Services) -> tuple[str, str]:
    """The recipient and the text of the newest mail."""
    return (await last_mails(services))[0]


async def link_in_last_mail(services: Services) -> str:
    """That of the newest mail with a link. The one for a new password is mailed by a job of the worker."""
    await services.mail_password_links.run_once()
    return next(found[1] for _, text in await last_mails(services) if (found := LINK.search(text)))
