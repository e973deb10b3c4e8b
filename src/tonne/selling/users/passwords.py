"""Passwords: rules, hashing and checking.

Argon2id with the parameters that OWASP recommends takes 19 MiB and tens of milliseconds. Hashes are computed in
threads, two at a time, so that many sign-ins at once can exhaust neither the memory nor the event loop. As many may
wait as can be answered within a few seconds.
"""

from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from tonne.platform.http.limits.turns import Turns
from tonne.platform.process.cost import in_thread
from tonne.platform.values.language import N_
from tonne.selling.users.errors import PasswordInvalid

MIN_LENGTH = 12
# Hashing takes time in proportion to the length.
MAX_LENGTH = 200
AT_ONCE = 2
# Alone on two cores they are answered within one second.
MAX_WAITING = 40
_BUSY = N_("Many people are signing in right now. Wait a few seconds, then try again.")
_TOO_COMMON = frozenset(
    {"password1234", "123456789012", "passwordpassword", "qwertyuiopas", "correcthorsebatterystaple", "administrator"}
)
_hasher = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


def check_new_password(password: str, email: str) -> None:
    """Raises PasswordInvalid."""
    if len(password) < MIN_LENGTH:
        raise PasswordInvalid(f"Choose a password of at least {MIN_LENGTH} characters.", field="password")
    if len(password) > MAX_LENGTH:
        raise PasswordInvalid(f"Choose a password of at most {MAX_LENGTH} characters.", field="password")
    plain = password.lower().replace(" ", "")
    if plain in _TOO_COMMON or len(set(plain)) < 5 or plain in {email, email.partition("@")[0]}:
        raise PasswordInvalid("This password is easy to guess. Choose another one.", field="password")


class Passwords:
    """`asker` is who waits: a network, a known browser or a user. All askers take turns."""

    def __init__(self) -> None:
        self._turns = Turns(AT_ONCE, MAX_WAITING, _BUSY)

    async def hash(self, password: str, asker: str) -> str:
        """Raises RateLimited if too many wait."""
        async with self._turns.take(asker):
            return await in_thread(hash_password, password)

    async def is_right(self, stored: str | None, password: str, asker: str) -> bool:
        """Takes the same time for a user without a password. Raises RateLimited if too many wait."""
        async with self._turns.take(asker):
            return await in_thread(_verify, stored, password)


def hash_password(password: str) -> str:
    """Takes long: not on the event loop."""
    return _hasher.hash(password)


def needs_rehash(stored: str) -> bool:
    """Whether the hash was made with older parameters."""
    return _hasher.check_needs_rehash(stored)


def _verify(stored: str | None, password: str) -> bool:
    try:
        _hasher.verify(stored or _unknown(), password[: MAX_LENGTH + 1])
    except (VerificationError, InvalidHashError):
        return False
    return stored is not None


@cache
def _unknown() -> str:
    """Compared with the password if the user is unknown, so that the answer takes as long."""
    return _hasher.hash("no user has this password")
