"""The suite finds what is wrong: proxies break one sentence each, and the right checks fail and quote it."""

import dataclasses
from typing import Any

import pytest

from tests.conformance.own_installation import OwnInstallation
from tests.conformance.wrong_proxies import Change, Message, Wrong, in_front_of
from tonne_conformance.options import ReceiverAddress
from tonne_conformance.run import Result, Verdict, run
from tonne_conformance.text_report import text_report


def _in_orders(change: Any) -> Change:
    """Change every order in a response, alone or in a list or in a payment."""

    def respond(message: Message) -> None:
        document = message.document
        if not isinstance(document, dict):
            return
        for order in [document, document.get("order"), *(document.get("data") or ())]:
            if isinstance(order, dict) and "offset_cost" in order:
                change(order)
        message.document = document

    return respond


def _in_events(change: Any) -> Change:
    def deliver(message: Message) -> None:
        document = message.document
        change(document["events"])
        message.document = document

    return deliver


def _rename_header(message: Message) -> None:
    message.headers = {name.replace("Service-HMAC", "X-HMAC"): value for name, value in message.headers.items()}


def _without_key(message: Message) -> None:
    document = message.document
    if isinstance(document, dict) and message.path == "/v1/orders/by-estimate":
        document.pop("idempotency_key", None)
        message.document = document


def _limit_of_101(message: Message) -> None:
    message.path = message.path.replace("limit=101", "limit=100")


def _plain_receivers(message: Message) -> None:
    message.body = message.body.replace(b"http://", b"https://")


def _empty_cursor(message: Message) -> None:
    document = message.document
    if isinstance(document, dict) and document.get("next_cursor", "") is None:
        message.document = document | {"next_cursor": ""}


def _spaced(message: Message) -> None:
    message.body = message.body.replace(b'":', b'": ')


def _always_ok(message: Message) -> None:
    message.status = 200


def _any_sum(message: Message) -> None:
    document = message.document
    if isinstance(document, dict) and "bundle_selection" in document and message.path == "/v1/orders/by-estimate":
        document.pop("bundle_selection")
        message.document = document


def _retire(events: list[dict[str, Any]]) -> None:
    for event in events:
        event["event_type"] = event["event_type"].replace("retiring", "retire")


def _without_account(events: list[dict[str, Any]]) -> None:
    for event in events:
        del event["account_id"]


def _without_milliseconds(events: list[dict[str, Any]]) -> None:
    for event in events:
        event["sequence"] = event["sequence"][:19] + "Z"


def _commission(order: dict[str, Any]) -> None:
    order.pop("commission", None)


def _number(order: dict[str, Any]) -> None:
    order["total_cost"] = float(order["total_cost"])


def _kilograms(order: dict[str, Any]) -> None:
    order["quantity"] = str(round(float(order["quantity"]) * 1000))


def _forget_metadata(order: dict[str, Any]) -> None:
    order["metadata"] = {name: str(value) for name, value in order["metadata"].items()}


# What is wrong, and the checks that must fail.
WRONGS: dict[str, tuple[Wrong, tuple[str, ...]]] = {
    "no commission": (
        Wrong(response=_in_orders(_commission)),
        ("orders.each_field_is_in_the_response_to_placing.commission", "orders.each_field_has_its_type.commission"),
    ),
    "a number instead of a decimal string": (
        Wrong(response=_in_orders(_number)),
        ("orders.each_field_has_its_type.total_cost",),
    ),
    "kilograms": (Wrong(response=_in_orders(_kilograms)), ("order_rules.the_quantity_is_in_tonnes",)),
    "metadata as text": (
        Wrong(response=_in_orders(_forget_metadata)),
        ("overview.each_kind_of_metadata_is_returned_as_given.booleans-and-null",),
    ),
    "no idempotency": (
        Wrong(request=_without_key),
        ("idempotency.a_repeated_request_places_no_second_order", "idempotency.ten_requests_at_once_place_one_order"),
    ),
    "a limit of 101": (Wrong(request=_limit_of_101), ("limits.a_limit_of_101_is_refused",)),
    "receivers without TLS": (
        Wrong(request=_plain_receivers),
        ("registration.each_other_scheme_is_refused.http",),
    ),
    "any sum of percentages": (Wrong(request=_any_sum), ("bundles.another_sum_is_refused",)),
    "an empty cursor": (Wrong(response=_empty_cursor), ("lists.the_cursor_is_null_at_the_end",)),
    "another header": (Wrong(delivery=_rename_header), ("delivery.every_request_has_the_signature_header",)),
    "events backwards": (
        Wrong(delivery=_in_events(list.reverse)),
        ("guarantees.events_of_an_account_arrive_in_order",),
    ),
    "other bytes than signed": (Wrong(delivery=_spaced), ("signatures.every_signature_is_the_expected_one",)),
    "order.retire": (Wrong(delivery=_in_events(_retire)), ("states.each_status_has_its_event_type.order.retiring",)),
    "no account": (
        Wrong(delivery=_in_events(_without_account)),
        ("events.each_field_of_an_event_is_there.account_id",),
    ),
    "no milliseconds": (
        Wrong(delivery=_in_events(_without_milliseconds)),
        ("events.each_field_of_an_event_has_its_type.sequence",),
    ),
    "every response acknowledges": (
        Wrong(acknowledgement=_always_ok),
        ("delivery.each_other_response_leads_to_a_redelivery.500",),
    ),
}


def _run(own: OwnInstallation, wrong: Wrong, only: tuple[str, ...]) -> Result:
    options = own.options
    api = options.url.removesuffix("/v1")
    with in_front_of(api, options.receiver.base_url, wrong, own.certificate) as (url, hook_url):
        host, port = options.receiver.listen
        receiver = ReceiverAddress.parse(hook_url, f"{host}:{port}")
        changed = dataclasses.replace(options, url=f"{url}/v1", receiver=receiver, only=only)
        return run(changed, own.certificate)


def test_through_the_proxies_a_right_service_is_right(own: OwnInstallation) -> None:
    only = tuple({name for _, names in WRONGS.values() for name in names})
    result = _run(own, Wrong(), only)
    assert result.exit_code == 0, text_report(result)
    assert len(result.outcomes) >= len(only)


@pytest.mark.parametrize("name", WRONGS)
def test_what_is_wrong_is_found(own: OwnInstallation, name: str) -> None:
    wrong, only = WRONGS[name]
    result = _run(own, wrong, only)
    assert {outcome.verdict for outcome in result.outcomes} == {Verdict.FAILED}, text_report(result)
    report = text_report(result)
    for outcome in result.outcomes:
        assert f"FAILED {outcome.check.id}\n  Section {outcome.check.section}: “{outcome.check.sentence}”" in report
        assert outcome.expected
        assert outcome.came
