"""Which accounts may refund by API and in the dashboard. Operators always may."""

from tonne.money.refunds.errors import RefundNotAllowed
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Actor, ActorKind, Scope

ALLOWS_REFUNDS = "SELECT refunds_by_api FROM accounts WHERE organisation_id = $1 AND mode = $2 AND id = $3"


async def allows_refunds(connection: Connection, scope: Scope) -> bool:
    """Read with every request: a permission that was taken back must not last in a cache."""
    return bool(await connection.fetchval(ALLOWS_REFUNDS, scope.organisation_id, scope.mode, scope.account_id))


async def require_permission(
    connection: Connection, scope: Scope, actor: Actor, *, is_operator: bool | None = None
) -> None:
    """Raises RefundNotAllowed. For a signed-in user, say whether they act as an operator or as a member."""
    if is_operator is None:
        is_operator = actor.kind is not ActorKind.KEY
    if not is_operator and not await allows_refunds(connection, scope):
        raise RefundNotAllowed
