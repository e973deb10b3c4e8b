"""Compare the configured secret keys with those that the database needs, before a process starts."""

from collections.abc import Sequence
from typing import NamedTuple

from tonne.platform.db.database import Connection
from tonne.platform.keys import secret_key_store as secret_store
from tonne.platform.keys.sealed import SealedSecrets
from tonne.platform.keys.secret_box import SecretBox, SecretKeyMissing, SecretUnreadable, create_key_file, key_file
from tonne.platform.settings.settings import Settings, SettingsError

# Values without the id of a key are compared with the key by opening some of them.
SAMPLE = 100


async def check_secret_key(connection: Connection, settings: Settings, sealed: Sequence[SealedSecrets]) -> SecretBox:
    """The box with the configured keys. Raises SettingsError if one is missing or wrong.

    The first start records the key in the database. With the embedded database it also creates the key. A new key is
    created in no other case: all secrets would become unreadable.
    """
    async with connection.transaction():
        await secret_store.lock_keys(connection)
        box = await compare_secret_key(connection, settings, sealed)
        if box is None:
            create_key_file(settings)
            box = SecretBox.from_settings(settings)
        await secret_store.record_key(connection, box.key_id)
    return box


async def compare_secret_key(
    connection: Connection, settings: Settings, sealed: Sequence[SealedSecrets]
) -> SecretBox | None:
    """Like `check_secret_key`, but changes nothing. None: there is no key yet, and the first start creates one."""
    recorded = await secret_store.list_key_ids(connection)
    box = await _load(connection, settings, sealed, recorded)
    if box is None:
        return None
    if recorded:
        _compare(box, recorded, settings)
    elif not await _opens_some(connection, box, sealed):
        raise SettingsError(
            f"{_place(settings)} is not the key of this database: it opens none of its secrets. Set TONNE_SECRET_KEY "
            "to the key that was used before, or add that key to TONNE_SECRET_KEYS_OLD. If it is lost, run `tonne "
            "secrets reset`."
        )
    return box


async def _load(
    connection: Connection, settings: Settings, sealed: Sequence[SealedSecrets], recorded: list[str]
) -> SecretBox | None:
    try:
        return SecretBox.from_settings(settings)
    except SecretKeyMissing as error:
        if recorded or any([await each.fetch_in_use(connection, 1) for each in sealed]):
            raise SettingsError(
                f"The secret key of this database{_named(recorded)} is missing: TONNE_SECRET_KEY is not set and "
                f"{key_file(settings)} does not exist. Restore the key from your backup. If it is lost, run `tonne "
                "secrets reset`."
            ) from error
        if settings.database_url:
            raise
        return None


def _compare(box: SecretBox, recorded: list[str], settings: Settings) -> None:
    missing = [key_id for key_id in recorded if key_id not in box.key_ids]
    if len(missing) == len(recorded):
        raise SettingsError(
            f"{_place(settings)} ({box.key_id}) is not the key of this database{_named(recorded)}: set "
            "TONNE_SECRET_KEY to that key. To change the key, add the previous one to TONNE_SECRET_KEYS_OLD. If it is "
            "lost, run `tonne secrets reset`."
        )
    if missing:
        raise SettingsError(
            f"This database also needs the secret key {' and '.join(missing)}, which is not configured: add it to "
            "TONNE_SECRET_KEYS_OLD, and run `tonne secrets rotate` before you remove it. If it is lost, run `tonne "
            "secrets reset`."
        )


async def _opens_some(connection: Connection, box: SecretBox, sealed: Sequence[SealedSecrets]) -> bool:
    found = [row for each in sealed for row in await each.fetch_in_use(connection, SAMPLE)]
    return not found or any(_reason(box, row["sealed"], row["id"]) is None for row in found)


class UnreadableSecret(NamedTuple):
    """`owner` is the kind of the row, such as a webhook."""

    owner: str
    id: str
    reason: str


async def find_unreadable_secrets(
    connection: Connection, box: SecretBox | None, sealed: Sequence[SealedSecrets]
) -> list[UnreadableSecret]:
    """The secrets that cannot be opened. Without a box that is all of them."""
    return [
        UnreadableSecret(each.owner, row["id"], reason)
        for each in sealed
        for row in await each.fetch_in_use(connection)
        if (reason := "no key is configured" if box is None else _reason(box, row["sealed"], row["id"])) is not None
    ]


def _reason(box: SecretBox, sealed: bytes, owner_id: str) -> str | None:
    """Why the secret cannot be opened; None when it can."""
    try:
        box.open(sealed, owner_id)
    except SecretUnreadable as error:
        return str(error)
    return None


def _place(settings: Settings) -> str:
    return "TONNE_SECRET_KEY" if settings.secret_key else str(key_file(settings))


def _named(key_ids: list[str]) -> str:
    return f" ({' and '.join(key_ids)})" if key_ids else ""
