"""Who is mailed about an order."""

from collections.abc import Sequence

from msgspec import Struct

from tonne.platform.db.database import Connection, columns
from tonne.platform.documents.mail.send_mail import is_mail_address
from tonne.selling.orders.model import Order

READ_PARTIES = """
SELECT orders.id, CASE WHEN accounts.kind = 'client_account' THEN accounts.name ELSE organisations.name END AS merchant,
       ARRAY (SELECT admin.email FROM organisation_admins admin
              WHERE admin.organisation_id = orders.organisation_id ORDER BY admin.email) AS admins
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN orders ON orders.account_id = keys.account_id AND orders.id = keys.id
JOIN accounts ON accounts.id = orders.account_id
JOIN organisations ON organisations.id = orders.organisation_id
"""


class Parties(Struct, frozen=True):
    """The merchant of an order, and the addresses of its payer.

    `payer` typed the address at a checkout, or the account has an address for receipts. `admins` are the merchant's.
    """

    merchant: str
    payer: str | None
    admins: list[str]

    @property
    def recipients(self) -> list[str]:
        return [self.payer] if self.payer is not None else self.admins


async def read_parties(connection: Connection, orders: Sequence[Order]) -> dict[str, Parties]:
    """By order id."""
    rows = await connection.fetch(READ_PARTIES, *columns(orders, "scope.account_id, id"))
    payers = {order.id: payer_of(order) for order in orders}
    return {
        row["id"]: Parties(
            row["merchant"],
            payers[row["id"]],
            [email for email in row["admins"] if is_mail_address(email)],
        )
        for row in rows
    }


def payer_of(order: Order) -> str | None:
    """The address of the payer, if there is a usable one."""
    email = order.payer_email
    return email if email is not None and is_mail_address(email) else None
