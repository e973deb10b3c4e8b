"""tonne estimate"""

import hashlib

import click

from tonne.base.clock import utc_now
from tonne.base.decimals import parse_decimal
from tonne.base.ids import new_id
from tonne.base.mass import MAX_GRAMS, MassUnit, to_grams
from tonne.cli.accounts import find_account
from tonne.cli.database import run_in_transaction
from tonne.db.pool import Connection
from tonne.estimates.errors import MassInvalid
from tonne.estimates.model import Estimate
from tonne.estimates.store import insert_estimate


@click.group()
def estimate() -> None:
    """Emission calculations, recorded so that orders can be placed on them."""


@estimate.command("create")
@click.argument("account_id")
@click.argument("amount")
@click.argument("unit", type=click.Choice([unit.value for unit in MassUnit]))
@click.option("--description", help="What was emitted, in words.")
def create(account_id: str, amount: str, unit: str, description: str | None) -> None:
    """Record an emission of AMOUNT UNIT (g, kg or t) for an account, and print its id."""
    number = parse_decimal(amount)
    if number is None:
        raise click.BadParameter("expected a decimal such as 1.105697", param_hint="AMOUNT")
    mass_grams = to_grams(number, MassUnit(unit))
    if not 1 <= mass_grams <= MAX_GRAMS:
        raise click.BadParameter(MassInvalid.message, param_hint="AMOUNT")

    async def work(tx: Connection) -> str:
        key = new_id("auto")
        made = Estimate(
            scope=(await find_account(tx, account_id)).scope,
            id=new_id("est"),
            idempotency_key=key,
            mass_grams=mass_grams,
            mass_amount=amount,
            mass_unit=MassUnit(unit),
            description=description,
            metadata="{}",
            created_at=utc_now(),
        )
        await insert_estimate(tx, made, hashlib.sha256(key.encode()).digest())
        return made.id

    click.echo(run_in_transaction(work))
