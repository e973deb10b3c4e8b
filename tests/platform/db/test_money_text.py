"""What the doctor prints of amounts."""

from tonne.platform.db.database import Database
from tonne.platform.values.amounts import DECIMALS, format_money


async def test_it_has_the_decimals_of_every_currency(db: Database) -> None:
    amounts = [0, 5, -979, 123_456_789_012]
    async with db.connection() as connection:
        rows = await connection.fetch(
            "SELECT minor, currency, money_text(minor, currency) AS shown "
            "FROM unnest($1::bigint[]) AS minor, unnest($2::text[]) AS currency",
            amounts,
            list(DECIMALS),
        )
    assert len(rows) == len(amounts) * len(DECIMALS)
    assert [
        row["shown"]
        for row in rows
        if row["shown"] != f"{format_money(row['minor'], row['currency'])} {row['currency']}"
    ] == []
