"""Rules for new passwords, and checking them."""

import pytest

from tests.support.people import PASSWORD, password_hash
from tonne.selling.users.errors import PasswordInvalid
from tonne.selling.users.passwords import MAX_LENGTH, Passwords, check_new_password, needs_rehash


@pytest.mark.parametrize(
    ("password", "part"),
    [
        ("short", "at least 12"),
        ("x" * (MAX_LENGTH + 1), "at most 200"),
        ("aaaaaaaaaaaaaaaa", "easy to guess"),
        ("PasswordPassword", "easy to guess"),
        ("ann.lee@example.com", "easy to guess"),
    ],
)
def test_weak_passwords_are_refused(password: str, part: str) -> None:
    with pytest.raises(PasswordInvalid, match=part):
        check_new_password(password, "ann.lee@example.com")


def test_several_words_are_a_password() -> None:
    check_new_password(PASSWORD, "ann.lee@example.com")


async def test_only_the_right_password_is_right() -> None:
    passwords = Passwords()
    assert await passwords.is_right(password_hash(), PASSWORD, "asker")
    assert not await passwords.is_right(password_hash(), PASSWORD + " ", "asker")
    assert not await passwords.is_right(None, PASSWORD, "asker")
    assert not await passwords.is_right("no hash", PASSWORD, "asker")


async def test_hashes_are_argon2id_and_salted() -> None:
    passwords = Passwords()
    first, second = await passwords.hash(PASSWORD, "asker"), await passwords.hash(PASSWORD, "asker")
    assert first != second
    assert first.startswith("$argon2id$")
    assert not needs_rehash(first)


def test_hashes_with_weaker_parameters_are_replaced_at_the_next_sign_in() -> None:
    assert needs_rehash("$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$4eK2W1s6Yb0")
