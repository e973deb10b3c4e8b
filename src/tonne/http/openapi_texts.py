"""Texts of the OpenAPI document that do not belong to one endpoint: introduction, tags and path parameters."""

from tonne.http.route import Parameter

INTRODUCTION = """\
Tonne sells carbon offsets as orders.

- **Authentication**: `Authorization: Bearer <API_KEY>`. Test keys see test data only, live keys live data only.
- **Money** is a decimal string with exactly the currency's decimals; **quantities** are tonnes. There are no floats.
- **Retries** are safe: send an `idempotency_key`, and repeat the request as often as you like.
- **Errors** all have the same format and a stable `error_code`.
- `/v1` only gains fields, endpoints, event types and error codes: ignore what you do not know.
"""

TAGS = {
    "Orders": "Place, quote, read, list and cancel orders, and download their invoices and certificates.",
    "Estimates": "Emission calculations, which orders can offset.",
    "Catalogue": "The bundles on sale and the projects behind them.",
    "Offset links": "Public pages where anyone can pay by card for an order of the account.",
    "Checkouts": "Payment pages for single sales, created by your server.",
    "Payments": "Payments by customers on the checkout pages.",
    "Retirements": "The credits that were retired at their registries for the organisation's orders.",
    "Sustainability page": "The public page that shows what an account has offset.",
    "Webhooks": "Receivers of events: registration, secrets, delivery state and attempts.",
    "Events": "The log of all events, to catch up after an outage of a receiver.",
    "Account": "The account that an API key acts for.",
    "Audit log": "Who changed what in the organisation, and when.",
    "Test helpers": "Move test orders through their life by hand. They exist for test keys only.",
}

_ID = {"type": "string", "minLength": 1}
PATH_PARAMETERS = {
    parameter.name: parameter
    for parameter in (
        Parameter("order_id", "Id of the order.", {**_ID, "examples": ["ord_06gtv1alff3htg9thvlvj59t20"]}),
        Parameter("credit_note_id", "Id of the credit note.", {**_ID, "examples": ["crn_06gtv1alff3htg9thvlvj59t20"]}),
        Parameter("estimate_id", "Id of the estimate.", {**_ID, "examples": ["est_06gtv168mimt7f59c5an0fgcj0"]}),
        Parameter("bundle_id", "Id of the bundle.", {**_ID, "examples": ["bun_06gtv168k5mt6mitjtjihcsfns"]}),
        Parameter("project_id", "Id of the project.", {**_ID, "examples": ["prj_06gtv168k1mt6nqbnbhk0fqhp4"]}),
        Parameter("offset_link_id", "Id of the offset link.", {**_ID, "examples": ["lnk_6s0h1v3m9k2qdb7t4n8cfj5gau"]}),
        Parameter("checkout_id", "Id of the checkout.", {**_ID, "examples": ["chk_06gtv6a2k5mt6mitjtjihcsfns"]}),
        Parameter("webhook_id", "Id of the webhook.", {**_ID, "examples": ["wh_06gtv1alff3htg9thvlvj59t20"]}),
        Parameter("event_id", "Id of the event.", {**_ID, "examples": ["evt_06gtv1alff3htg9thvlvj59t20"]}),
        Parameter(
            "idempotency_key",
            "The key that the order was placed with, URL-encoded: a slash in it is `%2F`.",
            {**_ID, "examples": ["flight-2026-11-15-0042"]},
        ),
        Parameter(
            "temporary_id",
            "The temporary id in the redirect after the payment.",
            {"type": "string", "format": "uuid", "examples": ["0f8c5d52-6a0e-5f0c-9d5b-0c5f2b3c7e11"]},
        ),
    )
}
