"""tonne org tax"""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import click

from tonne.apps.cli.database import ACTOR, run_in_transaction
from tonne.apps.cli.output import Output, ValueColumn, columns, output_options
from tonne.platform.values.amounts import TaxTreatment, format_rate, parse_decimal
from tonne.platform.values.context import utc_now
from tonne.selling.accounts.tax.tax_profile import TaxProfile, read_tax_profile, set_tax_profile

DEFAULT = "default"
FACTS: tuple[ValueColumn[TaxProfile], ...] = (
    ValueColumn(
        "treatment",
        lambda o: o.treatment,
        show=lambda o: o.treatment or f"{DEFAULT} (see the setting tax_treatment)",
    ),
    ValueColumn(
        "rate",
        lambda o: None if o.rate is None else format_rate(Fraction(o.rate)),
        show=lambda o: "-" if o.rate is None else f"{format_rate(Fraction(o.rate))} %",
    ),
    *columns("country", "tax_id", "legal_note", "buyer_reference", "street", "postcode", "city"),
)


class _TaxRate(click.ParamType[Decimal]):
    name = "per cent"

    def convert(self, value: object, _param: click.Parameter | None, _ctx: click.Context | None) -> Decimal:
        per_cent = value if isinstance(value, Decimal) else parse_decimal(str(value))
        if per_cent is None:
            self.fail("expected a number of per cent such as 19 or 8.1")
        return per_cent / 100


@click.command("tax")
@click.argument("organisation_id")
@click.option(
    "--treatment",
    type=click.Choice([DEFAULT, *(treatment.value for treatment in TaxTreatment)]),
    help="How new orders are taxed. default: as the seller's settings say.",
)
@click.option("--rate", type=_TaxRate(), help="Rate of the treatment standard.")
@click.option("--country", help="Country of the organisation, such as DE.")
@click.option("--tax-id", help="VAT number of the organisation. Validated where the country's rules are known.")
@click.option("--legal-note", help="Note on invoices, instead of the seller's note for the treatment.")
@click.option("--buyer-reference", help="Purchase order number or Leitweg-ID that invoices state.")
@click.option("--street", help="Street and number in electronic invoices.")
@click.option("--postcode", help="Postcode in electronic invoices.")
@click.option("--city", help="City in electronic invoices.")
@output_options
def tax(organisation_id: str, treatment: str | None, rate: Decimal | None, output: Output, **texts: str | None) -> None:
    """Show or change an organisation's tax profile.

    Changes the fields that are given. "" clears a field. Orders that have a price keep their tax.
    """
    changes: dict[str, Any] = {name: text or None for name, text in texts.items() if text is not None}
    if treatment is not None:
        changes["treatment"] = None if treatment == DEFAULT else TaxTreatment(treatment)
    if rate is not None:
        changes["rate"] = rate
    if changes:
        found = run_in_transaction(set_tax_profile, organisation_id, changes, actor=ACTOR, now=utc_now())
    else:
        found = run_in_transaction(read_tax_profile, organisation_id)
    output.print_object(found, FACTS)
