"""Which accounts may refund by API. Operators always may."""

from tonne.base.actor import Actor, ActorKind
from tonne.base.scope import Scope
from tonne.db.pool import Connection
from tonne.refunds.errors import RefundNotAllowed

ALLOWS_REFUNDS = "SELECT refunds_by_api FROM accounts WHERE organisation_id = $1 AND mode = $2 AND id = $3"


async def require_permission(connection: Connection, scope: Scope, actor: Actor) -> None:
    """Raises RefundNotAllowed. Read with every request: a permission that was taken back must not last in a cache."""
    if actor.kind is not ActorKind.KEY:
        return
    if not await connection.fetchval(ALLOWS_REFUNDS, scope.organisation_id, scope.mode, scope.account_id):
        raise RefundNotAllowed
