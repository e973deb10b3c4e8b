"""Sections 3, 6.2 to 6.5 and 9: events."""

from tests.mutants.mutant import Mutant

PAYLOAD = "platform/events/payload.py"
LOG = "platform/events/log.py"
PLACE = "selling/orders/placing/place_order.py"
TYPE = """"event_type":"' || {0}.event_type\""""
SEQUENCE = "to_char({0}.sequence AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"
PLACING = "events = [order_event(OrderStatus.RECEIVED, order.id, received), event_of(order, document)]"
DOCUMENT = "[encode_document(event.document) for event in events]"


def _payload(name: str, old: str, new: str, check: str) -> Mutant:
    return Mutant(name, PAYLOAD, old, new, check)


def _renamed(old: str, new: str, check: str) -> Mutant:
    return _payload(
        f"{old} is {new}", TYPE, TYPE.replace("{0}.event_type", f"replace({{0}}.event_type, '{old}', '{new}')"), check
    )


MUTANTS = [
    *(
        _payload(
            f"an event without {name}", f'"{name}":', f'"{name}_":', f"events.each_field_of_an_event_is_there.{name}"
        )
        for name in ("account_id", "event_type", "sequence")
    ),
    _payload(
        "an event without event_id",
        '"event_id":"\' || {{0}}.id',
        '"event":"\' || {{0}}.id',
        "events.each_field_of_an_event_is_there.event_id",
    ),
    _payload(
        "an event without api_version",
        '{{{{"api_version":"{API_VERSION}","event_id":"\' ||',
        '{{{{"version":"{API_VERSION}","event_id":"\' ||',
        "events.each_field_of_an_event_is_there.api_version",
    ),
    _payload("version 2", 'API_VERSION = "v1"', 'API_VERSION = "v2"', "events.the_version_of_every_event_is_v1"),
    _payload(
        "data without an order",
        """split_part({0}.event_type, '.', 1)""",
        "'subject'",
        "events.the_data_of_every_event_has_an_order",
    ),
    _payload("no milliseconds", '.MS"Z"\'', '"Z"\'', "events.each_field_of_an_event_has_its_type.sequence"),
    _payload("a sequence without a zone", '.MS"Z"\'', ".MS'", "events.the_sequence_is_a_time"),
    _payload(
        "a sequence that falls",
        "{0}.sequence AT TIME ZONE 'UTC',",
        "timestamp '2090-01-01' - ({0}.sequence AT TIME ZONE 'UTC' - timestamp '2000-01-01'),",
        "events.ignoring_lower_sequences_loses_no_event",
    ),
    _payload(
        "a new id for each delivery",
        "|| {{0}}.id ||",
        "|| 'evt_' || md5(random()::text) ||",
        "events.ignoring_known_ids_leaves_every_event_once",
    ),
    _payload(
        "an event of no account",
        '|| {{0}}.account_id"""',
        '|| \'acc_1\'"""',
        "overview.an_event_names_the_account_of_its_order",
    ),
    _renamed("order.received", "order.created", "states.each_status_has_its_event_type.order.received"),
    _renamed("order.placed", "order.priced", "states.each_status_has_its_event_type.order.placed"),
    _renamed("order.paid", "order.payed", "states.each_status_has_its_event_type.order.paid"),
    _renamed("order.retiring", "order.retire", "states.each_status_has_its_event_type.order.retiring"),
    _renamed("order.cancelled", "order.canceled", "states.each_status_has_its_event_type.order.cancelled"),
    _renamed("order.failed", "order.failure", "states.each_status_has_its_event_type.order.failed"),
    _renamed("order.completed", "order.complete", "states.each_status_has_its_event_type.order.completed"),
    _renamed("order.completed", "order.done", "overview.the_completion_of_an_order_is_notified"),
    *(
        Mutant(
            f"the order of an event without {name}",
            LOG,
            DOCUMENT,
            DOCUMENT.replace("event.document", f"""event.document.replace(b'"{name}":', b'"{name}_":')"""),
            check,
        )
        for name, check in {
            "currency": "events.each_field_of_the_order_in_an_event_is_the_one_of_the_order.currency",
            "metadata": "events.each_field_of_the_order_in_an_event_is_the_one_of_the_order.metadata",
            "created_at": "events.each_field_of_the_order_in_an_event_is_the_one_of_the_order.created_at",
            "estimate_id": "events.each_field_of_the_order_in_an_event_is_the_one_of_the_order.estimate_id",
            "type": "events.each_field_of_the_order_in_an_event_is_the_one_of_the_order.type",
            "offset_cost": "events.the_price_in_an_event_is_the_one_of_the_order.offset_cost",
            "total_cost": "events.the_price_in_an_event_is_the_one_of_the_order.total_cost",
        }.items()
    ),
    Mutant(
        "no event of a received order",
        PLACE,
        PLACING,
        "events = [event_of(order, document)]",
        "states.each_move_of_a_complete_order_has_one_event.by-estimate",
    ),
    Mutant(
        "the first two events are swapped",
        PLACE,
        PLACING,
        "events = [event_of(order, document), order_event(OrderStatus.RECEIVED, order.id, received)]",
        "guarantees.events_of_an_order_arrive_in_the_order_of_its_life",
    ),
    Mutant(
        "every move has two events",
        "selling/orders/move_order.py",
        "events.append((step.scope, event_of(step, document)))",
        "events.extend([(step.scope, event_of(step, document))] * 2)",
        "delivery.every_event_is_about_another_move",
    ),
    Mutant(
        "another status",
        "selling/orders/schemas.py",
        "        status=order.status,\n",
        '        status="retired" if order.status is model.OrderStatus.RETIRING else order.status,\n',
        "states.no_order_has_another_status",
    ),
]
