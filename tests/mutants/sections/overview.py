"""Sections 0, 1, 4 and 9: what the service does, and addresses."""

from tests.mutants.mutant import Mutant

PLACE = "selling/orders/placing/place_order.py"
SHOWS = "SELECT page.enabled AND 'certificates' = ANY (page.sections) AND"
PAGES = "channels/public_pages/store.py"
ROUTE = "platform/http/route.py"
FIELDS = "platform/http/client_fields.py"
COMPLETE = "supply/retirements/allocate_orders.py"

MUTANTS = [
    Mutant(
        "quantity and value are swapped",
        "selling/orders/schemas.py",
        "        type=order.type,\n",
        '        type="value" if order.type == "quantity" else "quantity",\n',
        "overview.an_order_by_estimate_is_by_quantity",
    ),
    Mutant(
        "paid in cash",
        "selling/orders/schemas.py",
        "payment_method=order.payment_method,",
        'payment_method="cash",',
        "overview.the_payment_method_is_one_of_two",
    ),
    Mutant(
        "the certificate is a list",
        COMPLETE,
        '/certificate",',
        '/certificates",',
        "overview.the_certificate_of_a_complete_order_is_a_pdf",
    ),
    Mutant(
        "a certificate below no version",
        COMPLETE,
        "{base_url}/v1/orders/",
        "{base_url}/orders/",
        "limits.the_certificate_sits_below_the_version",
    ),
    Mutant(
        "public certificates without the section",
        PAGES,
        SHOWS,
        "SELECT page.enabled AND",
        "overview.the_public_certificate_does_not_work_otherwise.enabled-without-the-section",
    ),
    Mutant(
        "public certificates of a disabled page",
        PAGES,
        SHOWS,
        "SELECT 'certificates' = ANY (page.sections) AND",
        "overview.the_public_certificate_does_not_work_otherwise.disabled",
    ),
    Mutant(
        "numbers in metadata are texts",
        FIELDS,
        'document.raw_member("metadata") or "{}"',
        '__import__("json").dumps(document.members.get("metadata") or {})',
        "overview.each_kind_of_metadata_is_returned_as_given.numbers",
    ),
    Mutant(
        "metadata decides about the address",
        PLACE,
        "email=None if customer is None else customer.email,",
        """email=("a@b.cd" if '"email"' in request.metadata else None) if customer is None else customer.email,""",
        "overview.metadata_changes_nothing_else_in_the_order.keys-that-orders-have",
    ),
    Mutant(
        "metadata of a checkout has its external id",
        "channels/checkout/order_checkout.py",
        'metadata=checkout.metadata or "{}",',
        """metadata='{"external_id":"A"}',""",
        "overview.metadata_of_a_checkout_is_returned_as_given",
    ),
    Mutant(
        "the external id of a checkout is not verified",
        "channels/checkout/order_checkout.py",
        "external_id_verified=checkout.external_id_verified,",
        "external_id_verified=False,",
        "overview.the_external_id_of_a_checkout_is_a_field_of_its_own",
    ),
    Mutant(
        "another kind of responses",
        ROUTE,
        "    media_type: bytes = JSON\n",
        '    media_type: bytes = b"text/plain"\n',
        "preamble.each_response_is_json.orders",
    ),
    Mutant(
        "any kind of body is read as JSON",
        ROUTE,
        """    def json(self, max_values: int = MAX_VALUES) -> Document:
        if self._media_type != JSON:
            raise MediaTypeInvalid
""",
        """    def json(self, max_values: int = MAX_VALUES) -> Document:
        if self._media_type == FORM:
            return Document(b"{}", dict(parse_qsl(self.body.decode())))
""",
        "preamble.an_order_in_another_format_is_refused",
    ),
    Mutant(
        "orders at another address",
        "selling/orders/routes.py",
        '"GET /v1/orders",',
        '"GET /v1/orders/list",',
        "preamble.each_address_answers_below_the_base.orders",
    ),
    Mutant(
        "orders by key at another address",
        "selling/orders/routes.py",
        "GET /v1/orders/by-idempotency-key/",
        "GET /v1/orders/by-key/",
        "preamble.each_address_answers_below_the_base.order-by-idempotency-key",
    ),
    Mutant(
        "placing at another address",
        "selling/orders/routes.py",
        'path = f"POST /v1/orders/by-{way}"',
        "path = f\"POST /v1/orders/{'from' if way == 'estimate' else 'by'}-{way}\"",
        "preamble.each_address_answers_below_the_base.order-by-estimate",
    ),
    Mutant(
        "payments at another address",
        "channels/checkout/routes.py",
        "GET /v1/payments/by-temporary-id/",
        "GET /v1/payments/by-id/",
        "preamble.each_address_answers_below_the_base.payment-by-temporary-id",
    ),
    Mutant(
        "webhooks at another address",
        "channels/webhooks/routes.py",
        '"POST /v1/webhooks",',
        '"POST /v1/webhooks/new",',
        "preamble.each_address_answers_below_the_base.webhooks",
    ),
]
