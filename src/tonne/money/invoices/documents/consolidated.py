"""Compose an invoice for many orders: tax once per rate, lines per account and bundle."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, date, timedelta
from fractions import Fraction
from typing import NamedTuple

import msgspec

from tonne.money.invoices import model
from tonne.money.invoices.documents.home_tax import with_home_tax
from tonne.money.invoices.documents.parties import rate_text, seller_of, taxes_of
from tonne.money.invoices.documents.record import BankAccount, InvoiceFee, InvoiceLine, InvoicePeriod, InvoiceRecord
from tonne.money.invoices.issuing.billing_store import BillingGroup, LineTotal, OrderToBill
from tonne.money.invoices.reference import reference_of
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTerms, TaxTreatment, apportion, format_money, format_tonnes, tax_on
from tonne.platform.values.context import Mode, new_id, same_named
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.catalogue.prices.reference_rates import HomeRate

NO_BANK = BankAccount(account_holder="", iban=None, bic=None, bank_name=None)


class TaxGroup(msgspec.Struct, frozen=True):
    """All orders of an invoice with one treatment and rate."""

    treatment: TaxTreatment
    rate: Fraction
    net_minor: int
    fee_minor: int
    tax_minor: int

    @property
    def terms(self) -> TaxTerms:
        return TaxTerms(self.treatment, self.rate)


class DividedTax(NamedTuple):
    """The tax of an invoice per rate, and the share of each order, in their order."""

    groups: list[TaxGroup]
    shares: list[int]


def divide_tax(orders: Sequence[OrderToBill]) -> DividedTax:
    """The tax of an invoice, computed once per rate, and the share of each order, by largest remainder.

    The shares are in the order of `orders`. They sum to the tax of each group.
    """
    members: dict[tuple[TaxTreatment, Fraction], list[int]] = defaultdict(list)
    for position, order in enumerate(orders):
        members[order.treatment, order.rate].append(position)
    groups, shares = [], [0] * len(orders)
    for (treatment, rate), positions in sorted(members.items()):
        totals = [orders[position].total_minor for position in positions]
        tax_minor = tax_on(sum(totals), treatment, rate)
        for position, share in zip(positions, apportion(tax_minor, totals), strict=True):
            shares[position] = share
        fee_minor = sum(orders[position].fee_minor for position in positions)
        groups.append(TaxGroup(treatment, rate, sum(totals), fee_minor, tax_minor))
    return DividedTax(groups, shares)


class ConsolidatedDraft(msgspec.Struct, frozen=True):
    """What an invoice for orders of one group, at least one, is composed of. Only its number is missing."""

    group: BillingGroup
    orders: Sequence[OrderToBill]
    tax: DividedTax
    lines: Iterable[LineTotal]
    organisation: model.BilledOrganisation
    home_rate: HomeRate | None = None


def compose_consolidated(
    draft: ConsolidatedDraft, settings: Settings, *, number: int, issued_on: date
) -> tuple[model.Invoice, list[model.BilledOrder]]:
    """A new invoice, and the orders as they are billed."""
    group, orders, organisation = draft.group, draft.orders, draft.organisation
    taxes, shares = draft.tax
    parts = [(each.terms, each.net_minor, each.tax_minor) for each in taxes]
    tax_minor = sum(shares)
    total_minor = sum(order.total_minor for order in orders) + tax_minor
    reference, currency = reference_of(group.mode, number), group.currency
    # A card is charged at once.
    by_card = group.is_paid_by_card
    due_on = issued_on if by_card else issued_on + timedelta(days=settings.invoice_due_days)
    placed_at = [order.placed_at for order in orders]
    days = [moment.astimezone(UTC).date() for moment in (min(placed_at), max(placed_at))]
    supplied = _supply([order.supplied_on for order in orders])
    fee, *more_fees = [
        InvoiceFee(model.FEE_LABEL, format_money(each.fee_minor, currency), each.treatment.value, rate_text(each.terms))
        for each in taxes
    ]
    record = InvoiceRecord(
        number=reference,
        mode=group.mode.value,
        issued_on=issued_on.isoformat(),
        due_on=due_on.isoformat(),
        order_id=orders[0].order_id if len(orders) == 1 else "",
        seller=seller_of(settings, orders[0].language),
        buyer=organisation.buyer({each.treatment for each in taxes}, orders[0].language),
        currency=currency,
        lines=[_line(line, currency, orders[0].language) for line in draft.lines],
        fee=fee,
        more_fees=more_fees,
        taxes=taxes_of(parts, currency, organisation.tax, settings, language=orders[0].language),
        total=format_money(total_minor, currency),
        bank=NO_BANK if by_card else model.bank_of(settings, currency),
        paid_by_card=by_card,
        reference=reference,
        note=model.TEST_NOTE if group.mode is Mode.TEST else None,
        period=InvoicePeriod(*(day.isoformat() for day in days)),
        supplied_on=supplied.first_day if supplied and supplied.first_day == supplied.last_day else None,
        supply=supplied if supplied and supplied.first_day != supplied.last_day else None,
        order_count=len(orders),
        language=orders[0].language,
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
    pairs = zip(orders, shares, strict=True)
    return invoice, [_billed(invoice, order, share) for order, share in pairs]


def _supply(days: Sequence[date | None]) -> InvoicePeriod | None:
    """None if an order is not complete yet."""
    known = [day.isoformat() for day in days if day is not None]
    return InvoicePeriod(min(known), max(known)) if len(known) == len(days) else None


def _billed(invoice: model.Invoice, order: OrderToBill, tax_minor: int) -> model.BilledOrder:
    total_minor = order.total_minor + tax_minor
    return same_named(model.BilledOrder, order, invoice_id=invoice.id, tax_minor=tax_minor, total_minor=total_minor)


def _line(line: LineTotal, currency: str, language: str) -> InvoiceLine:
    return InvoiceLine(
        description=model.nature_of(line.description, language),
        quantity=format_tonnes(line.quantity_grams),
        unit_price=format_money(line.unit_price_minor, currency),
        amount=format_money(line.offset_minor, currency),
        account=line.account,
        treatment=line.treatment.value,
        rate=rate_text(TaxTerms(line.treatment, line.rate)),
    )
