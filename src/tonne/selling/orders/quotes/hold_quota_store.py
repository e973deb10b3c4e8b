"""SQL of the quotas within which quotes hold supply."""

from collections.abc import Sequence
from typing import NamedTuple

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode, Scope


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


async def list_of_organisation(connection: Connection, organisation_id: str, mode: Mode) -> list[HoldQuota]:
    return [HoldQuota(**row) for row in await connection.fetch(LIST_OF_ORGANISATION, organisation_id, mode)]


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
    grams: int | None = await connection.fetchval(FIND_QUOTA, subject_id, mode, organisation_id)
    return grams


SET_QUOTA = """
INSERT INTO hold_quotas (subject_id, mode, organisation_id, quota_grams) VALUES ($1, $2, $3, $4)
ON CONFLICT (subject_id, mode) DO UPDATE SET quota_grams = excluded.quota_grams
"""


async def set_quota_grams(tx: Connection, organisation_id: str, subject_id: str, mode: Mode, quota_grams: int) -> None:
    await tx.execute(SET_QUOTA, subject_id, mode, organisation_id, quota_grams)


DELETE_QUOTA = "DELETE FROM hold_quotas WHERE subject_id = $1 AND mode = $2 AND organisation_id = $3"


async def delete_quota(tx: Connection, organisation_id: str, subject_id: str, mode: Mode) -> None:
    await tx.execute(DELETE_QUOTA, subject_id, mode, organisation_id)
