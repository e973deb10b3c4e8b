"""Models: conversion when a field is read, unions, unknown fields."""

import copy
import pickle
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from tonne_client import OMIT, Model, UnknownModel
from tonne_client.attempts import _encode
from tonne_client.base_model import converter
from tonne_client.models import Order, WebhookEvent

ORDER: dict[str, Any] = {
    "id": "ord_1",
    "status": "sleeping",
    "total_cost": "50.00",
    "tax": None,
    "created_at": "2026-11-15T10:00:00.123Z",
    "bundles": [{"bundle_name": "Forest", "quantity": "0.5"}],
    "metadata": {"a": 1},
    "new_field": 1,
}


def test_fields_are_converted_when_they_are_read() -> None:
    order = Order(ORDER)
    assert (order.id, order.total_cost, order.tax) == ("ord_1", Decimal("50.00"), None)
    assert str(order.total_cost) == "50.00"
    assert order.created_at == datetime(2026, 11, 15, 10, 0, 0, 123000, tzinfo=UTC)
    assert order.bundles[0].quantity == Decimal("0.5")
    assert order.bundles is order.bundles
    # A word, or a field, that a later version of the service has added.
    assert order.to_dict()["status"] == str(order.status) == "sleeping"
    assert order.to_dict()["new_field"] == 1
    # Optional fields may be absent.
    assert order.hold_reason is None
    assert "total_cost" in dir(order)


def test_a_missing_or_unknown_field_is_an_attribute_error() -> None:
    order: Any = Order(ORDER)
    with pytest.raises(AttributeError, match="did not send the field 'currency'"):
        _ = order.currency
    with pytest.raises(AttributeError, match="'Order' object has no attribute 'totalcost'"):
        _ = order.totalcost


def test_models_can_be_compared_copied_and_pickled() -> None:
    order = Order(ORDER)
    assert order.id
    assert pickle.loads(pickle.dumps(order)) == copy.deepcopy(order) == order  # noqa: S301 - our own
    assert order != Order({**ORDER, "id": "ord_2"})
    assert repr(Order({"id": "ord_1"})) == "Order(id='ord_1')"


def test_unions_are_told_apart_by_their_tag() -> None:
    convert = converter(WebhookEvent)
    event = convert({"event_type": "order.placed", "sequence": "2026-11-15T10:00:00.123Z", "data": {"order": ORDER}})
    assert type(event).__name__ == "OrderPlacedEvent"
    # Sequences are compared as text.
    assert event.sequence == "2026-11-15T10:00:00.123Z"
    assert event.data.order.id == "ord_1"
    unknown: Any = convert({"event_type": "moon.landed", "event_id": "evt_1"})
    assert type(unknown).__name__ == UnknownModel.__name__
    assert unknown.event_id == "evt_1"
    assert pickle.loads(pickle.dumps(unknown)) == unknown  # noqa: S301 - our own


class First(Model):
    amount: Decimal


class Second(Model):
    error: str


def test_unions_without_a_tag_are_told_apart_by_required_fields() -> None:
    convert = converter(First | Second | None)
    assert type(convert({"amount": 1.5})) is First
    assert type(convert({"error": "no"})) is Second
    assert First({"amount": 1.5}).amount == Decimal("1.5")


def test_values_are_sent_without_losing_digits() -> None:
    body = {"a": Decimal("1E+3"), "b": Decimal("0.10"), "c": datetime(2026, 1, 2, tzinfo=UTC), "d": "ä"}
    assert _encode(body).decode() == '{"a":"1000","b":"0.10","c":"2026-01-02T00:00:00+00:00","d":"ä"}'
    with pytest.raises(TypeError, match="object cannot be sent"):
        _encode({"a": object()})
    assert repr(OMIT) == "OMIT"
