"""Audit packs contain names: they are deleted when a person is erased, and can be made again."""

from tonne.platform.db.pool import Connection
from tonne.platform.values.scope import Scope

DELETE_PACKS = "DELETE FROM audit_packs WHERE organisation_id = $1 AND mode = $2"


async def delete_packs(tx: Connection, scope: Scope) -> None:
    await tx.execute(DELETE_PACKS, scope.organisation_id, scope.mode)
