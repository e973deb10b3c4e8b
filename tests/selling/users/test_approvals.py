"""Whose approval counts: of a user who is not, and does not count as, the one who requested it."""

from datetime import timedelta

import asyncpg
import pytest

from tests.support.clock import START
from tests.support.people import approver
from tests.support.world import TESTER
from tonne.platform.db.database import Database
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, ActorKind, Mode, new_id, replace
from tonne.selling.users.approvals import (
    ApprovalKind,
    Approver,
    Subject,
    approve,
    approver_by_token,
    approver_in_browser,
)
from tonne.selling.users.create_user import disable_user, set_approver
from tonne.selling.users.errors import ApprovalNotAllowed, SecondPersonNeeded
from tonne.selling.users.links import create_password_link
from tonne.selling.users.model import User, UserSession
from tonne.selling.users.personal_tokens import find_by_token, make_token, revoke_personal_token
from tonne.selling.users.store import find_user_by_id, revoke_sessions

ORGANISATION = "org_1"
SHELL = "cli:root@db-1"
HOUR = timedelta(hours=1)


def subject(requested_by: str, *terms: str) -> Subject:
    return Subject(
        kind=ApprovalKind.REFUND,
        id="rfd_1",
        organisation_id=ORGANISATION,
        mode=Mode.LIVE,
        requested_by=requested_by,
        terms=terms or ("500", "EUR", "chg_1", "A gesture"),
    )


async def missing(db: Database, asked: Subject, person: Approver) -> int:
    async with db.transaction() as tx:
        return await approve(tx, asked, person, START)


async def refusal(db: Database, asked: Subject, person: Approver) -> str:
    with pytest.raises(SecondPersonNeeded) as caught:
        await missing(db, asked, person)
    return str(caught.value)


def test_only_the_unbound_command_line_needs_two() -> None:
    found = {
        requested_by: [subject(requested_by).missing(["user:usr_a", "user:usr_b"][:count]) for count in range(3)]
        for requested_by in (SHELL, "user:usr_1", "key:key_1", "system:job", "payer:lnk_1")
    }
    one = [1, 0, 0]
    assert found == {SHELL: [2, 1, 0], "user:usr_1": one, "key:key_1": one, "system:job": one, "payer:lnk_1": one}
    assert subject(SHELL).missing(["user:usr_a", "user:usr_a"]) == 1


async def test_what_an_unbound_command_line_requested_needs_two_users(db: Database) -> None:
    ann, bob = await approver(db, "ann"), await approver(db, "bob")
    asked = subject(SHELL)
    assert await missing(db, asked, ann) == 1
    assert "You have approved this" in await refusal(db, asked, ann)
    # Another session of the same person.
    assert "You have approved this" in await refusal(db, asked, replace(ann, session_id="ses_other"))
    assert await missing(db, asked, bob) == 0


async def test_the_requester_cannot_approve_by_another_way_in(db: Database) -> None:
    ann, bob = await approver(db, "ann"), await approver(db, "bob")
    asked = subject(str(ann.actor))
    for way in (ann, replace(ann, session_id="pat_1"), replace(ann, actor=replace(ann.actor, address="ann@laptop"))):
        assert "You requested this" in await refusal(db, asked, way)
    assert await missing(db, asked, bob) == 0


async def test_a_change_of_the_terms_voids_an_approval(db: Database) -> None:
    ann, bob = await approver(db, "ann"), await approver(db, "bob")
    asked = subject(SHELL)
    changed = [
        replace(asked, terms=terms)
        for terms in (
            ("501", "EUR", "chg_1", "A gesture"),
            ("500", "EUR", "chg_2", "A gesture"),
            ("500", "EUR", "chg_1", "Another reason"),
        )
    ]
    assert len({each.digest for each in (asked, *changed, replace(asked, requested_by="cli:eve@db-1"))}) == 5
    assert await missing(db, asked, ann) == 1
    assert await missing(db, changed[1], bob) == 1, "that of the first does not count any more"


async def test_who_changed_a_limit_of_the_organisation_counts_as_the_requester(db: Database) -> None:
    ann, bob = await approver(db, "ann"), await approver(db, "bob")

    async def change(
        action: str, at_hours: int, actor: Actor, values: tuple[object, object], owner: str = ORGANISATION
    ) -> None:
        before, after = ({"credit_limit_minor" if action == "account.updated" else "name": each} for each in values)
        async with db.transaction() as tx:
            by = actor.at(START - at_hours * HOUR)
            await audit.record(tx, owner, action, by=by, subject_id="acc_1", before=before, after=after)

    # Long ago, by others, of others, and another change.
    await change("account.limits_changed", 25, ann.actor, (1, 2))
    await change("account.limits_changed", 1, TESTER, (1, 2))
    await change("account.limits_changed", 1, ann.actor, (1, 2), "org_2")
    await change("account.renamed", 1, ann.actor, (1, 2))
    asked = subject("key:key_1")
    async with db.transaction() as tx:
        await approve(tx, asked, ann, START)
        await tx.execute("ALTER TABLE approvals DISABLE TRIGGER USER")
        await tx.execute("DELETE FROM approvals")
    for hours, action in enumerate(("account.limits_changed", "api_key.limit_changed", "account.updated"), start=1):
        person = await approver(db, f"person-{hours}")
        await change(action, hours, person.actor, (1, 2))
        assert "changed a limit" in await refusal(db, asked, person), action
    assert await missing(db, asked, bob) == 0


async def test_who_let_the_other_one_in_today_counts_as_the_requester(db: Database, settings: Settings) -> None:
    ann, bob, eve = [await approver(db, name) for name in ("ann", "bob", "eve")]
    people = {each.actor.name: each for each in (ann, bob, eve)}

    async def user_of(person: Approver) -> User:
        async with db.connection() as connection:
            found = await find_user_by_id(connection, person.actor.name)
        assert found is not None
        return found

    async def created(person: Approver, by: str, hours: int) -> None:
        async with db.transaction() as tx:
            kind, _, name = by.partition(":")
            actor = Actor(ActorKind(kind), name)
            at = actor.at(START - hours * HOUR)
            await audit.record(tx, None, "user.created", by=at, subject_id=person.actor.name, after={"x": 1})

    await created(bob, str(ann.actor), 25)
    assert await missing(db, subject(str(ann.actor)), bob) == 0, "longer ago"
    await created(bob, str(ann.actor), 23)
    for requester, person in ((ann, bob), (bob, ann)):
        asked = replace(subject(str(requester.actor)), id=new_id("rfd"))
        assert "let the other one in" in await refusal(db, asked, person)
    assert await missing(db, replace(subject(str(bob.actor)), id="rfd_2"), eve) == 0
    both = replace(subject(SHELL), id="rfd_3")
    assert await missing(db, both, ann) == 1
    assert "let the other one in" in await refusal(db, both, bob), "the second of two approvals"
    # By an invitation, by giving the right, and by a link for a new password.
    async with db.transaction() as tx:
        await tx.execute(
            "INSERT INTO organisations (id, name, fee_rate, created_at) VALUES ($1, 'x', 0, now())", "org_1"
        )
        await tx.execute(
            "INSERT INTO user_links (id, token_hash, kind, email, organisation_id, role, created_by, created_at, "
            "expires_at) VALUES ('uln_1', sha256('x'), 'invitation', 'new@x.test', 'org_1', 'owner', $1, $2, $2)",
            str(ann.actor),
            START,
        )
    for number, let_in in enumerate(("link", "right", "password")):
        new = await approver(db, f"new-{number}")
        people[new.actor.name] = new
        if let_in == "link":
            await created(new, "user:uln_1", 1)
        else:
            user = await user_of(new)
            async with db.transaction() as tx:
                if let_in == "right":
                    await set_approver(tx, replace(user, may_approve=False), may_approve=True, by=ann.actor.at(START))
                else:
                    await create_password_link(tx, settings, user, by=ann.actor.at(START))
        asked = replace(subject(str(ann.actor)), id=new_id("rfd"))
        assert "let the other one in" in await refusal(db, asked, new), let_in
        assert await missing(db, asked, eve) == 0


async def test_the_table_refuses_one_person_and_changes(db: Database) -> None:
    ann = await approver(db, "ann")
    await missing(db, subject(SHELL), ann)
    insert = (
        "INSERT INTO approvals (kind, subject_id, digest, requested_by, approved_by, session_id, factor, at) "
        "VALUES ('refund', 'rfd_2', sha256('x'), $1, $2, 'ses_1', $3, now())"
    )
    async with db.connection() as connection:
        for values in (
            ("user:usr_1", "user:usr_1", "second_factor"),
            ("user:usr_1", SHELL, "second_factor"),
            ("user:usr_1", "key:key_1", "second_factor"),
            ("user:usr_1", "user:usr_2", "password"),
        ):
            with pytest.raises(asyncpg.CheckViolationError):
                await connection.execute(insert, *values)
        await connection.execute(insert, "user:usr_1", "user:usr_2", "second_factor")
        for statement in ("UPDATE approvals SET digest = sha256('y')", "DELETE FROM approvals", "TRUNCATE approvals"):
            with pytest.raises(asyncpg.RaiseError, match="append-only"):
                await connection.execute(statement)


def test_the_browser_needs_the_right_a_second_factor_and_a_recent_sign_in() -> None:
    user = User(
        "usr_1", "a@x.test", "Ann", is_operator=True, has_password=True, totp_enabled=True, created_at=START,
        may_approve=True,
    )  # fmt: skip
    session = UserSession(
        "ses_1", user, is_complete=True, is_strong=True, created_at=START, last_seen_at=START, expires_at=START,
        address="", agent="",
    )  # fmt: skip
    actor, now = Actor(ActorKind.USER, user.id), START + timedelta(minutes=5)
    assert approver_in_browser(session, actor, now).session_id == "ses_1"
    for faulty, at in (
        (replace(session, user=replace(user, may_approve=False)), now),
        (replace(session, user=replace(user, is_operator=False)), now),
        (replace(session, is_strong=False), now),
        (session, now + timedelta(seconds=1)),
    ):
        with pytest.raises(ApprovalNotAllowed):
            approver_in_browser(faulty, actor, at)


async def test_a_token_approves_only_if_the_settings_say_so_and_its_owner_may(db: Database, settings: Settings) -> None:
    person = await approver(db, "ann")
    by_token = replace(settings, approvals_by="token")

    async def user() -> User:
        async with db.connection() as connection:
            found = await find_user_by_id(connection, person.actor.name)
        assert found is not None
        return found

    async def make() -> str:
        async with db.transaction() as tx:
            return await make_token(tx, await user(), "Laptop", 90, by=person.actor.at(START))

    async def use(token: str, days: int = 1, actor: Actor = person.actor, settings: Settings = by_token) -> Approver:
        async with db.connection() as connection:
            return await approver_by_token(
                connection, token, actor, settings=settings, now=START + timedelta(days=days)
            )

    token = await make()
    assert (await use(token)).factor == "token"
    other = (await approver(db, "bob")).actor
    for faulty in (
        {"token": token, "settings": settings},
        {"token": token, "days": 90},
        {"token": token, "actor": other},
        {"token": token[:-1]},
        {"token": f"{token[:-1]}-" if token[-1] != "-" else f"{token[:-1]}_"},
        {"token": ""},
    ):
        with pytest.raises(ApprovalNotAllowed):
            await use(**faulty)
    for change in ("revoke", "sessions", "right", "disable"):
        token = await make()
        assert (await use(token)).factor == "token", change
        async with db.transaction() as tx:
            now = person.actor.at(START)
            found = await find_by_token(tx, token, START)
            assert found is not None
            if change == "revoke":
                await revoke_personal_token(tx, found.user, found.id, by=now)
            elif change == "sessions":
                await revoke_sessions(tx, found.user.id, START)
            elif change == "right":
                await set_approver(tx, found.user, may_approve=False, by=now)
            else:
                await disable_user(tx, found.user, by=now)
        with pytest.raises(ApprovalNotAllowed):
            await use(token)
        async with db.transaction() as tx:
            await tx.execute("UPDATE users SET may_approve = true WHERE id = $1", person.actor.name)
    async with db.connection() as connection:
        log = await connection.fetchval("SELECT string_agg(audit_log::text, ' ') FROM audit_log")
    assert token not in log
