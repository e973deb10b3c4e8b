"""Which role may do what."""

import pytest

from tonne.selling.users.model import Right, Role, may_grant, role_allows

ALLOWED = {
    Right.VIEW: set(Role),
    Right.MONEY: {Role.OWNER, Role.ADMIN, Role.FINANCE},
    Right.LIVE_KEYS: {Role.OWNER, Role.ADMIN},
    Right.TEST_KEYS: {Role.OWNER, Role.ADMIN, Role.DEVELOPER},
    Right.WEBHOOKS: {Role.OWNER, Role.ADMIN, Role.DEVELOPER},
    Right.PEOPLE: {Role.OWNER, Role.ADMIN},
    Right.SETTINGS: {Role.OWNER, Role.ADMIN},
}


@pytest.mark.parametrize("right", Right)
def test_rights_of_the_roles(right: Right) -> None:
    assert {role for role in Role if role_allows(role, right)} == ALLOWED[right]


def test_only_owners_make_owners() -> None:
    assert {role for role in Role if may_grant(role, Role.OWNER)} == {Role.OWNER}
    assert {role for role in Role if may_grant(role, Role.READ_ONLY)} == {Role.OWNER, Role.ADMIN}
