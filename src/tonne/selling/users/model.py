"""The people who sign in to the dashboard, their roles and sessions."""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct


def normal_email(text: str) -> str:
    """An address as it is stored, looked up and counted by limits: the database folds some letters differently."""
    return text.strip().lower()


class Role(StrEnum):
    OWNER = "owner"
    ADMIN = "admin"
    FINANCE = "finance"
    DEVELOPER = "developer"
    READ_ONLY = "read_only"

    @property
    def label(self) -> str:
        return self.value.replace("_", " ").capitalize()


class Right(StrEnum):
    """What a page or a button needs."""

    VIEW = "view"
    # Buying, paying, refunding, and changing how accounts pay.
    MONEY = "money"
    LIVE_KEYS = "live_keys"
    TEST_KEYS = "test_keys"
    WEBHOOKS = "webhooks"
    PEOPLE = "people"
    # Accounts, offset links and the public page.
    SETTINGS = "settings"


_RIGHTS = {
    Role.OWNER: frozenset(Right),
    Role.ADMIN: frozenset(Right),
    Role.FINANCE: frozenset({Right.VIEW, Right.MONEY}),
    Role.DEVELOPER: frozenset({Right.VIEW, Right.TEST_KEYS, Right.WEBHOOKS}),
    Role.READ_ONLY: frozenset({Right.VIEW}),
}


def role_allows(role: Role, right: Right) -> bool:
    return right in _RIGHTS[role]


def may_grant(granter: Role, role: Role) -> bool:
    """Only owners make owners, and only they change what another owner may do."""
    return role_allows(granter, Right.PEOPLE) and (granter is Role.OWNER or role is not Role.OWNER)


class User(Struct, frozen=True):
    id: str
    email: str
    name: str
    is_operator: bool
    has_password: bool
    totp_enabled: bool
    created_at: datetime
    disabled_at: datetime | None = None
    # Signs in from the same machine only.
    is_demo: bool = False
    has_passkey: bool = False
    # An operator who may approve what another person requested.
    may_approve: bool = False

    @property
    def has_second_factor(self) -> bool:
        return self.totp_enabled or self.has_passkey


class Membership(Struct, frozen=True):
    organisation_id: str
    organisation_name: str
    role: Role


class Member(Struct, frozen=True):
    """A user as the organisation's other members see them."""

    user_id: str
    email: str
    name: str
    role: Role
    has_second_factor: bool
    created_at: datetime
    last_seen_at: datetime | None


class UserSession(Struct, frozen=True):
    id: str
    user: User
    # False between the password and the second factor.
    is_complete: bool
    # Whether a second factor was given.
    is_strong: bool
    created_at: datetime
    last_seen_at: datetime
    expires_at: datetime
    address: str
    agent: str
