"""Sections 2.4, 3 and 4.4: payments by their temporary id."""

from tests.mutants.mutant import Mutant

LOOKUP = "channels/checkout/paying/payment_lookup.py"
MODEL = "channels/checkout/model.py"
RESPONSE = """Response(b'{"order":%b,"type":"order"}' % document)"""


def _response(name: str, old: str, new: str, check: str) -> Mutant:
    return Mutant(name, LOOKUP, RESPONSE, RESPONSE.replace(old, new), check)


def _changed(name: str, old: str, new: str, check: str) -> Mutant:
    return _response(name, "% document", f"% document.replace(b'{old}', b'{new}')", check)


MUTANTS = [
    _response("a payment without an order", '"order":%b', '"purchase":%b', "payments.a_payment_has_its_order"),
    _response(
        "another type of payment", '"type":"order"', '"type":"payment"', "payments.the_type_of_a_payment_is_order"
    ),
    _response("a payment without a type", '"type":', '"kind":', "payments.the_type_of_a_payment_is_order"),
    *(
        _changed(
            f"the order of a payment without {name}",
            f'"{name}":',
            f'"{name}_":',
            f"payments.each_field_of_the_order_of_a_payment_is_there.{name}",
        )
        for name in ("total_cost", "email", "metadata", "created_at")
    ),
    _changed(
        "a payment of another link",
        '"offset_link_id":"',
        '"offset_link_id":"x',
        "payments.the_order_of_a_payment_is_what_the_customer_paid",
    ),
    _changed(
        "the order of a payment is never complete",
        '"status":"complete"',
        '"status":"paid"',
        "payments.the_order_of_a_payment_is_in_its_current_state",
    ),
    Mutant(
        "the temporary id is no UUID",
        MODEL,
        "return str(uuid.UUID(bytes=digest[:16], version=4))",
        "return uuid.UUID(bytes=digest[:16], version=4).hex",
        "payments.the_temporary_id_is_a_uuid",
    ),
    Mutant(
        "an unknown payment is empty",
        LOOKUP,
        "            raise PaymentNotFound",
        '            return Response(b"{}")',
        "payments.an_unknown_id_finds_nothing",
    ),
    Mutant(
        "a temporary id is never valid",
        MODEL,
        "TEMPORARY_ID_LIFE = timedelta(minutes=15)",
        "TEMPORARY_ID_LIFE = timedelta(0)",
        "payments.a_temporary_id_is_valid_more_than_once",
    ),
    Mutant(
        "payments of the other mode",
        "channels/checkout/store.py",
        "checkouts.temporary_id_hash = $1 AND checkouts.organisation_id = $2 AND checkouts.mode = $3",
        "checkouts.temporary_id_hash = $1 AND checkouts.organisation_id = $2 AND $3 <> ''",
        "modes.a_live_key_does_not_find_a_test_payment",
    ),
]
