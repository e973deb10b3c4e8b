"""Grant an account or an organisation a quota of supply that its quotes may hold."""

from collections.abc import Sequence
from typing import NamedTuple

from tonne.platform.db.database import Connection, optional
from tonne.platform.events.audit import record as audit
from tonne.platform.values.amounts import MAX_GRAMS, MassUnit, format_tonnes, parse_decimal, to_grams
from tonne.platform.values.context import By, Mode, Scope, Tenant
from tonne.selling.orders.quotes.errors import HoldQuotaInvalid


class HoldQuota(NamedTuple):
    """`subject_id` is an account, or an organisation for all its accounts without a quota of their own."""

    subject_id: str
    mode: str
    organisation_id: str
    quota_grams: int


HAS_QUOTA = """
SELECT EXISTS (SELECT FROM hold_quotas
               WHERE mode = $1 AND subject_id IN ($2::text, $3::text) AND organisation_id = $2)
"""


async def has_quota(connection: Connection, scope: Scope) -> bool:
    return await connection.fetchval(HAS_QUOTA, scope.mode, scope.organisation_id, scope.account_id) is True


# The account's own quota comes first. The lock serialises quotes that count against the same quota.
LOCK_QUOTA = """
SELECT subject_id, mode, organisation_id, quota_grams FROM hold_quotas
WHERE mode = $1 AND subject_id IN ($2::text, $3::text) AND organisation_id = $2
ORDER BY subject_id = $3 DESC LIMIT 1 FOR NO KEY UPDATE
"""


async def lock_quota(tx: Connection, scope: Scope) -> HoldQuota | None:
    """The quota that quotes of this account count against, locked until the transaction ends."""
    row = await tx.fetchrow(LOCK_QUOTA, scope.mode, scope.organisation_id, scope.account_id)
    return None if row is None else HoldQuota(**row)


LIST_OF_ORGANISATION = """
SELECT subject_id, mode, organisation_id, quota_grams FROM hold_quotas
WHERE organisation_id = $1 AND mode = $2 ORDER BY subject_id
"""


async def list_of_organisation(connection: Connection, tenant: Tenant) -> list[HoldQuota]:
    return [HoldQuota(**row) for row in await connection.fetch(LIST_OF_ORGANISATION, *tenant)]


LIST_QUOTAS = """
SELECT subject_id, mode, organisation_id, quota_grams FROM hold_quotas ORDER BY organisation_id, mode, subject_id
"""


async def list_quotas_any_account(connection: Connection) -> Sequence[HoldQuota]:
    return [HoldQuota(**row) for row in await connection.fetch(LIST_QUOTAS)]


FIND_QUOTA = """
SELECT quota_grams FROM hold_quotas WHERE subject_id = $1 AND mode = $2 AND organisation_id = $3
"""


async def find_quota_grams(connection: Connection, organisation_id: str, subject_id: str, mode: Mode) -> int | None:
    """The quota of the account or organisation itself."""
    return optional(int, await connection.fetchval(FIND_QUOTA, subject_id, mode, organisation_id))


SET_QUOTA = """
INSERT INTO hold_quotas (subject_id, mode, organisation_id, quota_grams) VALUES ($1, $2, $3, $4)
ON CONFLICT (subject_id, mode) DO UPDATE SET quota_grams = excluded.quota_grams
"""


async def set_quota_grams(tx: Connection, organisation_id: str, subject_id: str, mode: Mode, quota_grams: int) -> None:
    await tx.execute(SET_QUOTA, subject_id, mode, organisation_id, quota_grams)


DELETE_QUOTA = "DELETE FROM hold_quotas WHERE subject_id = $1 AND mode = $2 AND organisation_id = $3"


async def delete_quota(tx: Connection, organisation_id: str, subject_id: str, mode: Mode) -> None:
    await tx.execute(DELETE_QUOTA, subject_id, mode, organisation_id)


NONE = "none"


def read_quota(text: str) -> int | None:
    """Tonnes as text in grams; None for `none`. Raises HoldQuotaInvalid."""
    if text.strip() == NONE:
        return None
    number = parse_decimal(text.strip())
    grams = 0 if number is None else to_grams(number, MassUnit.T)
    if not 1 <= grams <= MAX_GRAMS:
        raise HoldQuotaInvalid
    return grams


async def set_hold_quota(
    tx: Connection,
    organisation_id: str,
    subject_id: str,
    mode: Mode,
    quota_grams: int | None,
    *,
    by: By,
) -> None:
    """None takes the quota away. Quotes that hold supply keep it until they expire.

    `subject_id` is an account of the organisation, or the organisation itself. Takes effect within seconds.
    """
    old = await find_quota_grams(tx, organisation_id, subject_id, mode)
    if old == quota_grams:
        return
    if quota_grams is None:
        await delete_quota(tx, organisation_id, subject_id, mode)
    else:
        await set_quota_grams(tx, organisation_id, subject_id, mode, quota_grams)
    await audit.record(
        tx,
        organisation_id,
        "hold_quota.changed",
        by=by,
        subject_id=subject_id,
        mode=mode,
        before={"quota": _text(old)},
        after={"quota": _text(quota_grams)},
    )


def _text(grams: int | None) -> str | None:
    return None if grams is None else f"{format_tonnes(grams)} t"
