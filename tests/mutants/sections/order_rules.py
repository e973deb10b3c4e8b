"""Section 2.1: what the fields of an order mean."""

from tests.mutants.mutant import Mutant

SCHEMAS = "selling/orders/schemas.py"
ITEMS = "selling/catalogue/schemas.py"
COMPLETE = "supply/retirements/allocate_orders.py"
PLACED = "    placed = msgspec.json.encode(out)\n"


def _placed_without(field: str, value: str, check: str) -> Mutant:
    new = f"    placed = msgspec.json.encode(msgspec.structs.replace(out, {field}={value}))\n"
    return Mutant(f"a placed order has no {field} yet ({check})", SCHEMAS, PLACED, new, check)


def _field(name: str, old: str, new: str, check: str) -> Mutant:
    return Mutant(name, SCHEMAS, old, new, check)


MUTANTS = [
    _field(
        "ids that are not unique", "        id=order.id,\n", "        id=order.id[:6],\n", "order_rules.ids_are_unique"
    ),
    _field(
        "a changed key",
        "idempotency_key=order.idempotency_key,",
        'idempotency_key=f"{order.idempotency_key}-1",',
        "order_rules.the_key_is_the_one_of_the_client",
    ),
    Mutant(
        "twice the value is spent",
        "selling/catalogue/prices/pricing.py",
        "value_minor -= value_minor % prices.total_unit",
        "value_minor += value_minor",
        "order_rules.the_offset_cost_is_not_above_the_requested_value",
    ),
    _placed_without("offset_cost", "None", "order_rules.the_offset_cost_is_set_with_the_bundles"),
    _placed_without("commission", "None", "order_rules.the_commission_is_set_with_the_bundles"),
    _placed_without("bundles", "[]", "order_rules.bundles_are_set.placed"),
    _placed_without("bundles", "[]", "states.each_status_sets_its_field.placed"),
    _placed_without("bundles", "[]", "overview.a_placed_order_has_bundles"),
    _field(
        "a total without the fee",
        "format_money(priced.total_cost_minor, currency)",
        "format_money(priced.offset_cost_minor, currency)",
        "order_rules.the_total_is_the_offset_cost_with_the_fee",
    ),
    _field(
        "an adjustment that is not in what is due",
        "is None else order.billing_adjustment_minor, currency)",
        "is None else -1, currency)",
        "order_rules.what_is_due_is_the_total_with_adjustment_and_tax",
    ),
    _field(
        "a paid order whose money is elsewhere",
        "payment_state=order.payment_state,",
        "payment_state=model.PaymentState.DISPUTED,",
        "states.paid_means_cleared_for_fulfilment",
    ),
    _field(
        "the quantity in kilograms",
        "format_tonnes(priced.quantity_grams)",
        "format_tonnes(priced.quantity_grams * 1000)",
        "order_rules.the_quantity_is_in_tonnes.kg",
    ),
    _field(
        "the requested quantity in grams",
        "None if grams is None else format_tonnes(grams)",
        "None if grams is None else str(grams)",
        "order_rules.the_requested_quantity_is_in_tonnes.kg",
    ),
    _field(
        "another currency than the one of the account",
        "        currency=currency,\n",
        '        currency="XXX",\n',
        "order_rules.the_currency_is_the_one_of_the_account",
    ),
    _field(
        "a creation in another year",
        "created_at=to_wire(order.created_at),",
        "created_at=to_wire(order.created_at.replace(year=2020, day=1)),",
        "order_rules.the_creation_is_when_it_was_placed",
    ),
    _field(
        "a creation that changes",
        "created_at=to_wire(order.created_at),",
        "created_at=to_wire(datetime.now().astimezone()),",
        "order_rules.the_creation_never_changes",
    ),
    Mutant(
        "a gram too much in each bundle",
        ITEMS,
        "quantity=format_tonnes(line.quantity_grams),",
        "quantity=format_tonnes(line.quantity_grams + 1),",
        "order_rules.the_quantities_of_the_bundles_add_up",
    ),
    Mutant(
        "a cent too much in each bundle",
        ITEMS,
        "offset_cost=format_money(line.offset_cost_minor, currency),",
        "offset_cost=format_money(line.offset_cost_minor + 1, currency),",
        "order_rules.the_costs_of_the_bundles_add_up",
    ),
    _field(
        "projects only at the end",
        "for project in order.projects],",
        "for project in order.projects if order.status is model.OrderStatus.COMPLETE],",
        "order_rules.projects_are_set.retiring",
    ),
    _field(
        "no projects while retiring",
        "for project in order.projects],",
        "for project in order.projects if order.status is not model.OrderStatus.RETIRING],",
        "states.each_status_sets_its_field.retiring",
    ),
    _field(
        "no projects in the end",
        "for project in order.projects],",
        "for project in order.projects if order.status is not model.OrderStatus.COMPLETE],",
        "overview.a_complete_order_has_projects",
    ),
    _field(
        "no certificate",
        "certificate=order.certificate_url,",
        "certificate=None,",
        "order_rules.the_certificate_is_set_when_complete",
    ),
    _field(
        "an empty certificate",
        "certificate=order.certificate_url,",
        'certificate="",',
        "states.each_status_sets_its_field.complete",
    ),
    _field(
        "a certificate before the end",
        "certificate=order.certificate_url,",
        'certificate=order.certificate_url or f"https://offsets.example.com/{order.id}",',
        "order_rules.the_certificate_is_not_set_before.paid",
    ),
    _field(
        "metadata is forgotten when the order is paid",
        "msgspec.Raw(order.metadata.encode())",
        'msgspec.Raw(order.metadata.encode() if order.status is model.OrderStatus.PLACED else b"{}")',
        "order_rules.metadata_is_the_same_to_the_end",
    ),
    _field(
        "an order does not name its link",
        "offset_link_id=order.offset_link_id,",
        "offset_link_id=None,",
        "order_rules.an_order_of_a_link_names_it",
    ),
    _field(
        "every order names a link",
        "offset_link_id=order.offset_link_id,",
        'offset_link_id=order.offset_link_id or "none",',
        "order_rules.another_order_names_no_link",
    ),
    _field(
        "no address of the customer",
        "email=order.email,",
        "email=None,",
        "order_rules.an_order_of_a_link_has_the_address_of_the_customer",
    ),
    _field(
        "an address without a customer",
        "email=order.email,",
        'email=order.email or "nobody@example.com",',
        "order_rules.another_order_has_no_address",
    ),
    _field(
        "an order does not name its estimate",
        "estimate_id=order.estimate_id,",
        "estimate_id=None,",
        "order_rules.an_order_by_estimate_names_it",
    ),
    _field(
        "half of the requested value",
        "requested_value=_money(value_minor, currency),",
        "requested_value=_money(value_minor and value_minor // 2, currency),",
        "order_rules.an_order_by_value_has_the_requested_value",
    ),
]
