"""Creating users, and changing what they may do."""

from datetime import datetime

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By, new_id
from tonne.selling.accounts.lookup import require_organisation
from tonne.selling.accounts.organisations.change_organisation import check_name
from tonne.selling.accounts.store import lock_organisation
from tonne.selling.users import store
from tonne.selling.users.errors import LastOwner, RoleRefused, UserExists, UserNotFound
from tonne.selling.users.model import Role, User, may_grant, normal_email


async def create_user(
    tx: Connection,
    email: str,
    name: str,
    *,
    password_hash: str | None,
    is_operator: bool = False,
    may_approve: bool = False,
    is_demo: bool = False,
    by: By,
) -> User:
    """Raises UserExists."""
    user = User(
        new_id("usr"),
        normal_email(email),
        check_name(name),
        is_operator=is_operator,
        has_password=password_hash is not None,
        totp_enabled=False,
        created_at=by.at,
        is_demo=is_demo,
        may_approve=may_approve,
    )
    if not await store.insert_user(tx, user, password_hash):
        raise UserExists(f"There is already a user with the address {user.email}.")
    # Neither name nor address: entries of the audit log can never be changed.
    after = {"is_operator": is_operator, "may_approve": may_approve}
    await audit.record(tx, None, "user.created", by=by, subject_id=user.id, after=after)
    return user


async def require_user(connection: Connection, email: str) -> User:
    found = await store.find_user_by_email(connection, email)
    if found is None:
        raise UserNotFound(f"There is no user with the address {email}. Run `tonne user list` to see all.")
    return found[0]


async def grant_role(
    tx: Connection,
    organisation_id: str,
    user_id: str,
    role: Role,
    *,
    granter: Role | None = None,
    by: By,
) -> None:
    """Make the user a member, or change the role. `granter` is the role of the member who does so; None: the operator.

    Raises RoleRefused or LastOwner.
    """
    await require_organisation(tx, organisation_id)
    # Serialises changes, so that two owners cannot demote each other at the same time.
    await lock_organisation(tx, organisation_id)
    old = await store.find_role(tx, organisation_id, user_id)
    _require_may_change(granter, old, role)
    if old is Role.OWNER and role is not Role.OWNER:
        await _require_other_owner(tx, organisation_id, user_id)
    await store.set_role(tx, organisation_id, user_id, role, by.at)
    await audit.record(
        tx,
        organisation_id,
        "member.role_changed" if old else "member.added",
        by=by,
        subject_id=user_id,
        before={"role": old} if old else None,
        after={"role": role},
    )


async def remove_member(
    tx: Connection, organisation_id: str, user_id: str, *, granter: Role | None = None, by: By
) -> None:
    """Raises UserNotFound, RoleRefused or LastOwner."""
    await lock_organisation(tx, organisation_id)
    old = await store.find_role(tx, organisation_id, user_id)
    if old is None:
        raise UserNotFound("This person is not a member of the organisation.")
    _require_may_change(granter, old, old)
    if old is Role.OWNER:
        await _require_other_owner(tx, organisation_id, user_id)
    await store.remove_member(tx, organisation_id, user_id)
    before = {"role": old}
    await audit.record(tx, organisation_id, "member.removed", by=by, subject_id=user_id, before=before, after=None)


async def disable_user(tx: Connection, user: User, *, by: By) -> None:
    """The user cannot sign in any more, and all sessions end."""
    await store.set_disabled(tx, user.id, by.at)
    await store.revoke_sessions(tx, user.id, by.at)
    await _record_disabled(tx, user, by.at, by=by)


async def enable_user(tx: Connection, user: User, *, by: By) -> None:
    await store.set_disabled(tx, user.id, None)
    await _record_disabled(tx, user, None, by=by)


async def set_approver(tx: Connection, user: User, *, may_approve: bool, by: By) -> None:
    """Give an operator the right to approve, or take it away. Raises UserNotFound for people who are no operators."""
    if not user.is_operator:
        raise UserNotFound(f"{user.email} is no operator: only operators can approve.")
    await store.set_may_approve(tx, user.id, may_approve=may_approve)
    before, after = {"may_approve": user.may_approve}, {"may_approve": may_approve}
    await audit.record(tx, None, "user.approver_changed", by=by, subject_id=user.id, before=before, after=after)


async def delete_user(tx: Connection, user: User, *, by: By) -> None:
    """Leave all organisations and delete what is known about the user. Raises LastOwner.

    Entries of the audit log keep the id of the user.
    """
    for membership in await store.list_memberships(tx, user.id):
        await remove_member(tx, membership.organisation_id, user.id, by=by)
    await store.delete_user(tx, user.id, user.email)
    await audit.record(tx, None, "user.deleted", by=by, subject_id=user.id)


async def _record_disabled(tx: Connection, user: User, disabled_at: datetime | None, *, by: By) -> None:
    action = "user.enabled" if disabled_at is None else "user.disabled"
    before, after = {"disabled": user.disabled_at is not None}, {"disabled": disabled_at is not None}
    await audit.record(tx, None, action, by=by, subject_id=user.id, before=before, after=after)


def _require_may_change(granter: Role | None, old: Role | None, new: Role) -> None:
    if granter is None:
        return
    if not may_grant(granter, new) or (old is not None and not may_grant(granter, old)):
        raise RoleRefused


async def _require_other_owner(tx: Connection, organisation_id: str, user_id: str) -> None:
    if not await store.count_other_owners(tx, organisation_id, user_id):
        raise LastOwner
