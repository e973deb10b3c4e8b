"""Sections 4.1, 4.3 and 8: idempotency keys, and placing an order."""

from tests.mutants.mutant import Mutant

FIELDS = "platform/http/client_fields.py"
STORE = "selling/orders/read_store.py"
ENDPOINTS = "selling/orders/endpoints.py"
PLACE = "selling/orders/placing/place_order.py"
BODIES = "selling/orders/placing/bodies.py"
BY_KEY = """\
SELECT orders.account_id, orders.idempotency_key, orders.wire_document, {_VERSION}
FROM unnest($1::text[], $2::text[]) AS keys (account_id, idempotency_key)
JOIN orders ON orders.account_id = keys.account_id AND orders.idempotency_key = keys.idempotency_key
JOIN event_streams stream ON stream.organisation_id = orders.organisation_id AND stream.mode = orders.mode
"""
# If several are found, the last one counts.
OF_ANY_ACCOUNT = BY_KEY.replace("SELECT orders.", "SELECT keys.").replace(
    "orders.account_id = keys.account_id AND ", ""
)
FOUND = "        return self.tags.tagged(request, Response(found.document), found.version)"
NOT_FOUND = f"            raise OrderNotFound\n{FOUND}"


def _key(name: str, old: str, new: str, check: str) -> Mutant:
    return Mutant(name, FIELDS, old, new, check)


MUTANTS = [
    _key(
        "every request places an order",
        "return Idempotency(key, request_digest(kind, document.raw))",
        "return Idempotency(None, request_digest(kind, document.raw))",
        "idempotency.a_repeated_request_places_no_second_order",
    ),
    _key(
        "keys are lower case",
        "    return Idempotency(key, request_digest(kind, document.raw))",
        "    return Idempotency(key and key.lower(), request_digest(kind, document.raw))",
        "idempotency.each_kind_of_key_is_kept_and_found.upper-case",
    ),
    _key(
        "keys are cut off",
        "    return Idempotency(key, request_digest(kind, document.raw))",
        "    return Idempotency(key and key[:30], request_digest(kind, document.raw))",
        "idempotency.each_kind_of_key_is_kept_and_found.plain",
    ),
    _key(
        "a replay shows a former state",
        'Response(body, 200, JSON, {"Idempotent-Replayed": "true"})',
        """Response(body.replace(b'"complete"', b'"placed"'), 200, JSON, {"Idempotent-Replayed": "true"})""",
        "idempotency.a_retry_returns_the_current_state_of_a_complete_order",
    ),
    _key(
        "a number is a key",
        "not isinstance(value, str) or isinstance(value, JsonNumber) or not _KEY",
        "not isinstance(value, str) or not _KEY",
        "idempotency.a_key_that_is_no_string_is_refused",
    ),
    Mutant(
        "a key of any account is found",
        STORE,
        BY_KEY,
        f"{OF_ANY_ACCOUNT}ORDER BY created_at\n",
        "idempotency.the_same_key_of_another_account_is_another_order",
    ),
    Mutant(
        "the first account with the key",
        STORE,
        BY_KEY,
        f"{OF_ANY_ACCOUNT}ORDER BY created_at DESC\n",
        "idempotency.a_key_finds_the_order_of_its_own_account",
    ),
    Mutant(
        "an account sees orders of its client accounts",
        STORE,
        BY_KEY,
        OF_ANY_ACCOUNT,
        "overview.an_order_of_a_client_account_is_its_own",
    ),
    Mutant(
        "a live key finds test orders",
        STORE,
        BY_KEY,
        OF_ANY_ACCOUNT,
        "modes.a_live_key_does_not_find_a_test_order.completed",
    ),
    Mutant(
        "an unknown key finds an empty order",
        ENDPOINTS,
        NOT_FOUND,
        f'            return Response(b"{{}}")\n{FOUND}',
        "idempotency.an_unknown_key_finds_nothing",
    ),
    Mutant(
        "a found order has no currency",
        ENDPOINTS,
        NOT_FOUND,
        NOT_FOUND.replace("document", """document.replace(b'"currency"', b'"money"')"""),
        "idempotency.each_field_of_the_found_order_is_there.currency",
    ),
    Mutant(
        "keys are not decoded",
        "platform/http/route.py",
        'text = unquote_to_bytes(self._path_parameters[name].encode("latin-1")).decode("utf-8")',
        "text = self._path_parameters[name]",
        "idempotency.each_kind_of_key_is_kept_and_found.slash",
    ),
    Mutant(
        "a plus in a key is a space",
        ENDPOINTS,
        'request.scope.account_id, request.path("idempotency_key")',
        'request.scope.account_id, request.path("idempotency_key").replace("+", " ")',
        "idempotency.each_kind_of_key_is_kept_and_found.plus-and-space",
    ),
    Mutant(
        "orders without a key share one",
        PLACE,
        'request.idempotency.key or new_id("auto")',
        'request.idempotency.key or "none"',
        "idempotency.orders_without_a_key_are_two_orders",
    ),
    Mutant(
        "an estimate is not required",
        BODIES,
        "    estimate_id: Annotated[EstimateId, ESTIMATE]\n",
        "    estimate_id: Annotated[EstimateId | None, ESTIMATE] = None\n",
        "placing.each_wrong_estimate_is_refused.missing",
    ),
    Mutant(
        "an unknown estimate is a tonne",
        PLACE,
        'raise EstimateUnknown(field="estimate_id")',
        "mass_grams = 1_000_000",
        "placing.a_refused_request_places_no_order",
    ),
    Mutant(
        "metadata may be an array",
        FIELDS,
        "not isinstance(value, dict) or len(value) > MAX_METADATA_KEYS",
        "len(value) > MAX_METADATA_KEYS",
        "placing.metadata_that_is_no_object_is_refused.array",
    ),
    Mutant(
        "metadata that nobody sent",
        FIELDS,
        'document.raw_member("metadata") or "{}"',
        """document.raw_member("metadata") or '{"source":"api"}'""",
        "placing.metadata_may_be_left_out",
    ),
    Mutant(
        "a response without the requested quantity",
        "selling/orders/schemas.py",
        "class OrderOut(msgspec.Struct):",
        'class OrderOut(msgspec.Struct, rename={"requested_quantity": "wanted_quantity"}):',
        "placing.the_response_includes.requested_quantity",
    ),
    Mutant(
        "the response to placing says another currency",
        ENDPOINTS,
        "return Response(body, 201) if original_digest is None",
        """return Response(body.replace(b'"currency":"', b'"currency":"X'), 201) if original_digest is None""",
        "placing.the_response_agrees_with_the_order_read_at_once.currency",
    ),
    Mutant(
        "a found order is cut off",
        ENDPOINTS,
        NOT_FOUND,
        NOT_FOUND.replace("document", "document[:-1]"),
        "placing.an_order_is_created",
    ),
]
