"""Passwords: rules, hashing and checking.

Argon2id with the parameters that OWASP recommends takes 19 MiB and tens of milliseconds. Hashes are computed in
threads, two at a time, so that many sign-ins at once can exhaust neither the memory nor the event loop. As many may
wait as can be answered within a few seconds.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from tonne.platform.http.errors import RateLimited
from tonne.platform.values.language import N_
from tonne.selling.users.errors import PasswordInvalid

MIN_LENGTH = 12
# Hashing takes time in proportion to the length.
MAX_LENGTH = 200
AT_ONCE = 2
# Alone on two cores they are answered within one second.
MAX_WAITING = 40
RETRY_AFTER_S = 5
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
        self._turns = Turns(AT_ONCE, MAX_WAITING)

    async def hash(self, password: str, asker: str) -> str:
        """Raises RateLimited if too many wait."""
        async with self._turns.take(asker):
            return await asyncio.to_thread(hash_password, password)

    async def is_right(self, stored: str | None, password: str, asker: str) -> bool:
        """Takes the same time for a user without a password. Raises RateLimited if too many wait."""
        async with self._turns.take(asker):
            return await asyncio.to_thread(_verify, stored, password)


class Turns:
    """A queue per asker, served in rotation: who asks once waits for at most one turn of each of the others.

    If all places are taken, the asker with the most of them loses the last one to a newcomer with fewer.
    """

    def __init__(self, at_once: int, max_waiting: int) -> None:
        self._free = at_once
        self._max_waiting = max_waiting
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def take(self, asker: str) -> AsyncIterator[None]:
        """Raises RateLimited at once, or as soon as the place is lost."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(asker)
        try:
            yield
        finally:
            self._hand_over()

    async def _wait(self, asker: str) -> None:
        if sum(map(len, self._queues.values())) >= self._max_waiting:
            longest = max(self._queues.values(), key=len)
            if len(longest) <= len(self._queues.get(asker, ())) + 1:
                raise _busy()
            last = longest.pop()
            if not last.done():
                last.set_exception(_busy())
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(asker, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            # It may have been handed over just before the cancellation.
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._hand_over()
            raise

    def _hand_over(self) -> None:
        while self._queues:
            asker, queue = self._queues.popitem(last=False)
            turn = queue.popleft()
            if queue:
                self._queues[asker] = queue
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


def _busy() -> RateLimited:
    error = RateLimited(_BUSY)
    error.headers["Retry-After"] = str(RETRY_AFTER_S)
    return error


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
