"""Section 2.1: the fields of an order."""

from tests.mutants.mutant import Mutant
from tonne_conformance.sections.orders import FIELDS

SCHEMAS = "selling/orders/schemas.py"
CLASS = "class OrderOut(msgspec.Struct):"
COMPLETE = "supply/retirements/allocate_orders.py"

_MISSING = [
    Mutant(
        f"an order without {name}",
        SCHEMAS,
        CLASS,
        f'class OrderOut(msgspec.Struct, rename={{"{name}": "{name}_"}}):',
        f"orders.each_field_is_in_the_response_to_placing.{name}",
    )
    for name in FIELDS
]

# Of each field: the old text, and one that makes it another type or format.
_TYPES = {
    "type": ("type=order.type,", "type=order.type.upper(),"),
    "currency": ("        currency=currency,\n", "        currency=currency.lower(),\n"),
    "offset_cost": (
        "format_money(priced.offset_cost_minor, currency)",
        "float(format_money(priced.offset_cost_minor, currency))",
    ),
    "total_cost": (
        "format_money(priced.total_cost_minor, currency)",
        'f"{format_money(priced.total_cost_minor, currency)} {currency}"',
    ),
    "commission": ("format_money(priced.commission_minor, currency)", "priced.commission_minor"),
    "quantity": ("format_tonnes(priced.quantity_grams)", 'f"{format_tonnes(priced.quantity_grams)} t"'),
    "payment_method": ("payment_method=order.payment_method,", "payment_method=order.payment_method.upper(),"),
    "created_at": ("created_at=to_wire(order.created_at),", "created_at=to_wire(order.created_at)[:-1],"),
    "bundles": (
        "[bundle_item_out(line, currency) for line in priced.lines]",
        "{line.bundle_id: bundle_item_out(line, currency) for line in priced.lines}",
    ),
    "projects": (
        "[_project_item_out(project, currency) for project in order.projects]",
        "[project.project_name for project in order.projects]",
    ),
    "metadata": ("msgspec.Raw(order.metadata.encode())", "order.metadata"),
    "offset_link_id": ("offset_link_id=order.offset_link_id,", "offset_link_id=[order.offset_link_id],"),
    "email": ("email=order.email,", 'email={"address": order.email},'),
    "estimate_id": ("estimate_id=order.estimate_id,", "estimate_id=[order.estimate_id],"),
    "requested_value": ("requested_value=_money(value_minor, currency),", "requested_value=value_minor,"),
    "requested_quantity": (
        "None if grams is None else format_tonnes(grams)",
        'None if grams is None else f"{format_tonnes(grams)} t"',
    ),
}

MUTANTS = [
    *_MISSING,
    *(
        Mutant(f"another type of {name}", SCHEMAS, old, new, f"orders.each_field_has_its_type.{name}")
        for name, (old, new) in _TYPES.items()
    ),
    Mutant(
        "the address of the certificate is relative",
        COMPLETE,
        'certificate_url=f"{base_url}/v1/orders/{order.id}/certificate"',
        'certificate_url=f"/v1/orders/{order.id}/certificate"',
        "orders.each_field_has_its_type.certificate",
    ),
    Mutant(
        "the number instead of the public address",
        COMPLETE,
        "public_address(base_url, named[order.id])",
        "named[order.id]",
        "orders.each_field_has_its_type.public_certificate_url",
    ),
    Mutant(
        "an empty text instead of null",
        SCHEMAS,
        "requested_value=_money(value_minor, currency),",
        'requested_value=_money(value_minor, currency) or "",',
        "orders.an_unset_value_is_null_in_events.requested_value",
    ),
]
