"""Create something once per idempotency key."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from tonne.platform.values.errors import TonneError

T = TypeVar("T")


class Idempotency(NamedTuple):
    """The client's key, if it sent a valid one, and a digest that tells a repeated request from a different one."""

    key: str | None
    digest: bytes


async def create_once(
    key: str | None,
    create: Callable[[], Awaitable[T | None]],
    find: Callable[[str], Awaitable[tuple[T, bytes] | None]],
) -> tuple[T, bytes | None]:
    """What `create` returns, or else the original with this key and the digest of the request that created it.

    `create` returns None when the key is taken. A used key is replayed even if `create` refuses the request for another
    reason. The original is looked up only then: nearly every request is a first one.
    """
    try:
        created = await create()
    except TonneError:
        original = None if key is None else await find(key)
        if original is None:
            raise
        return original
    if created is not None:
        return created, None
    original = await find(key or "")
    if original is None:
        raise LookupError("an idempotency key is taken, but nothing has it")
    return original
