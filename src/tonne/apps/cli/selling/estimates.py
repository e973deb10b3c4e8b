"""tonne estimate"""

import click

from tonne.apps.cli.database import run_for_account
from tonne.apps.cli.fields import options_of
from tonne.apps.cli.parameters import EnumChoice
from tonne.platform.values.amounts import MassUnit, parse_decimal
from tonne.platform.values.context import utc_now
from tonne.selling.estimates.errors import MassInvalid
from tonne.selling.estimates.record_estimate import mass_in_grams, record_estimate
from tonne.selling.estimates.schemas import EstimateIn


@click.group()
def estimate() -> None:
    """Record emission estimates to place orders for."""


@estimate.command("create")
@click.argument("account_id")
@click.argument("amount")
@click.argument("unit", type=EnumChoice(MassUnit))
@options_of(EstimateIn)
def create(account_id: str, amount: str, unit: MassUnit, description: str | None) -> None:
    """Record an emission of AMOUNT UNIT (g, kg or t) and print its id."""
    number = parse_decimal(amount)
    if number is None:
        raise click.BadParameter("expected a decimal such as 1.105697", param_hint="AMOUNT")
    try:
        mass_in_grams(number, unit)
    except MassInvalid as error:
        raise click.BadParameter(str(error), param_hint="AMOUNT") from error
    recorded = run_for_account(account_id, record_estimate, number, unit, description, now=utc_now())
    click.echo(recorded.id)
