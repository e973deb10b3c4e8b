"""Compose an invoice for many orders: lines, fees and tax are summed for each rate, and rounded once."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, timedelta
from fractions import Fraction

import msgspec

from tonne.money.invoices import model
from tonne.money.invoices.documents.billed_sums import BilledSums, ExactOrder, OrderShare, sum_billed
from tonne.money.invoices.documents.home_tax import with_home_tax
from tonne.money.invoices.documents.parties import rate_text, seller_of, taxes_of
from tonne.money.invoices.documents.record import (
    InvoiceAllowance,
    InvoiceFee,
    InvoiceLine,
    InvoicePeriod,
    InvoiceRecord,
    Treatment,
)
from tonne.money.invoices.issuing.billing_store import BillingGroup, LineTotal, OrderToBill
from tonne.money.invoices.reference import reference_of
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTerms, TaxTreatment, format_money, format_tonnes
from tonne.platform.values.context import Mode, new_id, same_named
from tonne.platform.values.language import N_
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.catalogue.prices.reference_rates import HomeRate

ALLOWANCE_LABEL = N_("Rounding in your favour")


class TaxGroup(msgspec.Struct, frozen=True):
    """All orders of an invoice with one treatment and rate, and their sums."""

    terms: TaxTerms
    lines: Sequence[LineTotal]
    sums: BilledSums


class DividedSums(msgspec.Struct, frozen=True):
    """The sums of an invoice for each treatment and rate, and the share of each order, in their order."""

    groups: Sequence[TaxGroup]
    shares: Sequence[OrderShare]

    @property
    def net_minor(self) -> int:
        return sum(group.sums.net_minor for group in self.groups)

    @property
    def tax_minor(self) -> int:
        return sum(group.sums.tax_minor for group in self.groups)


def divide_sums(orders: Sequence[OrderToBill], lines: Sequence[LineTotal], *, unit: int = 1) -> DividedSums:
    """`lines` are those of all these orders. The shares are in the order of `orders`, the sums multiples of `unit`."""
    members: dict[tuple[TaxTreatment, Fraction], list[int]] = defaultdict(list)
    for position, order in enumerate(orders):
        members[order.treatment, order.rate].append(position)
    groups, shares = [], dict[int, OrderShare]()
    for key, positions in sorted(members.items()):
        terms = TaxTerms(*key)
        own = [line for line in lines if (line.treatment, line.rate) == key]
        exact = [ExactOrder(orders[position].exact_cost, orders[position].exact_fee) for position in positions]
        sums = sum_billed(own, exact, terms, unit=unit)
        groups.append(TaxGroup(terms, own, sums))
        shares |= zip(positions, sums.shares, strict=True)
    return DividedSums(groups, [shares[position] for position in range(len(orders))])


class ConsolidatedDraft(msgspec.Struct, frozen=True):
    """What an invoice for orders of one group, at least one, is composed of. Only its number is missing."""

    group: BillingGroup
    orders: Sequence[OrderToBill]
    sums: DividedSums
    organisation: model.BilledOrganisation
    home_rate: HomeRate | None = None
    # The client account of the only order.
    client_name: str | None = None


def compose_consolidated(
    draft: ConsolidatedDraft, settings: Settings, *, number: int, issued_on: date
) -> tuple[model.Invoice, list[model.BilledOrder]]:
    """A new invoice, and the orders as they are billed."""
    group, orders, organisation, sums = draft.group, draft.orders, draft.organisation, draft.sums
    parts = [(each.terms, each.sums.net_minor, each.sums.tax_minor) for each in sums.groups]
    tax_minor, total_minor = sums.tax_minor, sums.net_minor + sums.tax_minor
    reference, currency = reference_of(group.mode, number), group.currency
    # A card is charged at once.
    by_card = group.is_paid_by_card
    due_on = issued_on if by_card else issued_on + timedelta(days=settings.invoice_due_days)
    placed_at = [order.placed_at for order in orders]
    days = [moment.astimezone(UTC).date() for moment in (min(placed_at), max(placed_at))]
    supplied = _supply([order.supplied_on for order in orders])
    fee, *more_fees = [
        InvoiceFee(model.FEE_LABEL, format_money(each.sums.fee_minor, currency), *_tax_of(each.terms))
        for each in sums.groups
    ]
    record = InvoiceRecord(
        number=reference,
        mode=group.mode.value,
        issued_on=issued_on.isoformat(),
        due_on=due_on.isoformat(),
        order_id=orders[0].order_id if len(orders) == 1 else "",
        seller=seller_of(settings, orders[0].language),
        buyer=organisation.buyer({each.terms.treatment for each in sums.groups}, orders[0].language),
        currency=currency,
        lines=[_line(line, currency, orders[0].language) for each in sums.groups for line in each.lines],
        fee=fee,
        more_fees=more_fees,
        allowances=_allowances(sums, currency),
        placed_total=format_money(sum(order.total_minor for order in orders), currency) if len(orders) > 1 else None,
        account=draft.client_name,
        taxes=taxes_of(parts, currency, organisation.tax, settings, language=orders[0].language),
        total=format_money(total_minor, currency),
        bank=model.NO_BANK if by_card else model.bank_of(settings, currency),
        paid_by_card=by_card,
        reference=reference,
        note=model.TEST_NOTE if group.mode is Mode.TEST else None,
        period=InvoicePeriod(*(day.isoformat() for day in days)),
        supplied_on=supplied.first_day if supplied and supplied.first_day == supplied.last_day else None,
        supply=supplied if supplied and supplied.first_day != supplied.last_day else None,
        order_count=len(orders),
        language=orders[0].language,
        einvoice=organisation.tax.einvoice,
        tax_point=settings.tax_point,
    )
    invoice = model.Invoice(
        id=new_id("inv"),
        organisation_id=group.organisation_id,
        mode=group.mode,
        order_count=len(orders),
        first_order_id=orders[0].order_id,
        number=number,
        reference=reference,
        currency=currency,
        total_minor=total_minor,
        tax_minor=tax_minor,
        billing=group.billing,
        payment_method=PaymentMethod.CARD if by_card else PaymentMethod.INVOICE,
        status=model.InvoiceStatus.OPEN,
        issued_on=issued_on,
        due_on=due_on,
        record=msgspec.json.encode(with_home_tax(record, draft.home_rate)),
    )
    return invoice, [_billed(invoice, order, share) for order, share in zip(orders, sums.shares, strict=True)]


def _supply(days: Sequence[date | None]) -> InvoicePeriod | None:
    """None if an order is not complete yet."""
    known = [day.isoformat() for day in days if day is not None]
    return InvoicePeriod(min(known), max(known)) if len(known) == len(days) else None


def _billed(invoice: model.Invoice, order: OrderToBill, share: OrderShare) -> model.BilledOrder:
    return same_named(
        model.BilledOrder,
        order,
        invoice_id=invoice.id,
        offset_minor=share.offset_minor,
        fee_minor=share.fee_minor,
        tax_minor=share.tax_minor,
        total_minor=share.net_minor + share.tax_minor,
    )


def _allowances(sums: DividedSums, currency: str) -> list[InvoiceAllowance]:
    return [
        InvoiceAllowance(ALLOWANCE_LABEL, format_money(each.sums.allowance_minor, currency), *_tax_of(each.terms))
        for each in sums.groups
        if each.sums.allowance_minor
    ]


def _tax_of(terms: TaxTerms) -> tuple[Treatment, str | None]:
    return terms.treatment.value, rate_text(terms)


def _line(line: LineTotal, currency: str, language: str) -> InvoiceLine:
    return InvoiceLine(
        description=model.nature_of(line.description, language),
        quantity=format_tonnes(line.quantity_grams),
        unit_price=format_money(line.unit_price_minor, currency),
        amount=format_money(line.amount_minor, currency),
        treatment=line.treatment.value,
        rate=rate_text(TaxTerms(line.treatment, line.rate)),
    )
