"""The fields of an order in the API: types, and when they are set."""

import re
from typing import Any

ORDER_FIELDS = [
    "id",
    "idempotency_key",
    "type",
    "status",
    "currency",
    "offset_cost",
    "total_cost",
    "commission",
    "quantity",
    "payment_method",
    "created_at",
    "bundles",
    "projects",
    "certificate",
    "public_certificate_url",
    "metadata",
    "offset_link_id",
    "email",
    "estimate_id",
    "requested_value",
    "requested_quantity",
    "payment_plan",
    "payment_state",
    "tax",
    "billing_adjustment",
    "amount_due",
    "refunded_amount",
    "failure_reason",
    "cancellation_reason",
    "beneficiary",
]
BUNDLE_FIELDS = {
    "bundle_id",
    "bundle_name",
    "primary_image",
    "quantity",
    "unit_price",
    "gross_unit_price",
    "offset_cost",
    "insufficient_available_quantity",
}
PRICES = ("offset_cost", "total_cost", "commission")
_TONNES = re.compile(r"(0|[1-9][0-9]*)(\.[0-9]{0,5}[1-9])?")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
_ORDER_ID = re.compile(r"ord_[a-z0-9]{26}")


def is_money(text: str, decimals: int = 2) -> bool:
    pattern = r"(0|[1-9][0-9]*)" + (rf"\.[0-9]{{{decimals}}}" if decimals else "")
    return re.fullmatch(pattern, text) is not None


def assert_wire_form(order: dict[str, Any], decimals: int = 2) -> None:
    """Every field is present and has its type; what is not known yet is null or empty."""
    assert list(order) == ORDER_FIELDS
    assert _ORDER_ID.fullmatch(order["id"])
    assert _MOMENT.fullmatch(order["created_at"])
    assert order["idempotency_key"]
    assert order["payment_method"] in {"invoice", "card"}
    assert isinstance(order["metadata"], dict)
    assert order["projects"] == []
    assert order["payment_state"] == "unpaid"
    assert is_money(order["refunded_amount"], decimals)
    assert order["beneficiary"]["name"]
    for name in ("certificate", "public_certificate_url", "offset_link_id", "email"):
        assert order[name] is None
    assert (order["failure_reason"] is not None) is (order["status"] == "failed")
    assert (order["requested_value"] is None) is (order["type"] == "quantity")
    assert (order["requested_quantity"] is None) is (order["type"] == "value")
    if order["requested_value"] is not None:
        assert is_money(order["requested_value"], decimals)
    if order["requested_quantity"] is not None:
        assert _TONNES.fullmatch(order["requested_quantity"])
    if order["status"] == "placed":
        _assert_priced(order, decimals)
    else:
        assert order["bundles"] == []
        assert [order[name] for name in (*PRICES, "quantity", "tax", "billing_adjustment", "amount_due")] == [None] * 7


def _assert_priced(order: dict[str, Any], decimals: int) -> None:
    assert all(is_money(order[name], decimals) for name in PRICES)
    assert _TONNES.fullmatch(order["quantity"])
    # Only billing it together with others takes something off, and it has not been billed so.
    assert order["billing_adjustment"] == (None if order["tax"] is None else f"{0:.{decimals}f}")
    assert order["bundles"]
    for line in order["bundles"]:
        assert set(line) == BUNDLE_FIELDS
        assert line["bundle_id"].startswith("bun_")
        assert isinstance(line["insufficient_available_quantity"], bool)
        assert _TONNES.fullmatch(line["quantity"])
        assert all(is_money(line[name], decimals) for name in ("unit_price", "gross_unit_price", "offset_cost"))
        assert line["primary_image"] is None or line["primary_image"].startswith(("http://", "https://"))
