"""Texts of the OpenAPI document that do not belong to one endpoint: introduction, tags and path parameters."""

from tonne.platform.http.route import Parameter

INTRODUCTION = """\
Tonne sells carbon offsets as orders.

- **Authentication**: `Authorization: Bearer <API_KEY>`. Test keys see test data only, live keys live data only.
- **Money** is a decimal string with exactly the currency's decimals; **quantities** are tonnes, as decimal strings.
- **Retries** are safe: send an `idempotency_key`, and repeat the request as often as you like.
- **Errors** all have the same format and a stable `error_code`.
- `/v1` only gains fields, endpoints, event types and error codes: ignore what you do not know.
"""

TAGS = {
    "Orders": "Place, quote, read, list and cancel orders, and download their invoices and certificates.",
    "Quotes": "Prices that hold for 30 minutes.",
    "Estimates": "Emission calculations, which orders can offset.",
    "Emission factors": "What estimates are calculated with, with sources and licences.",
    "Catalogue": "The bundles on sale and the projects behind them.",
    "Analytics": "Totals of orders and numbers of estimates.",
    "Offset links": "Public pages where anyone can pay by card for an order of the account.",
    "Checkouts": "Payment pages for single sales, created by your server.",
    "Payments": "Payments by customers on the checkout pages.",
    "Retirements": "The credits that were retired at their registries for the organisation's orders.",
    "Sustainability page": "The public page that shows what an account has offset.",
    "Webhooks": "Receivers of events: registration, secrets, delivery state and attempts.",
    "Events": "The log of all events, to catch up after an outage of a receiver.",
    "Account": "The account that an API key acts for.",
    "Accounts": "The organisation's own accounts, and client accounts for its customers.",
    "Audit log": "Who changed what in the organisation, and when.",
    "API keys": "The keys of the organisation: create restricted ones, rotate and revoke them.",
    "Persons": "What is held about a person, and its erasure.",
    "Test helpers": "Move test orders through their life by hand. They exist for test keys only.",
}

_ID = {"type": "string", "minLength": 1}
PATH_PARAMETERS = {
    parameter.name: parameter
    for parameter in (
        Parameter("account_id", "Id of the account.", {**_ID, "examples": ["acc_06gtv1alff3htg9thvlvj59t20"]}),
        Parameter(
            "client_account_id", "Id of the client account.", {**_ID, "examples": ["acc_06gtv6a2k5mt6mitjtjihcsfns"]}
        ),
        Parameter("order_id", "Id of the order.", {**_ID, "examples": ["ord_06gtv1alff3htg9thvlvj59t20"]}),
        Parameter("quote_id", "Id of the quote.", {**_ID, "examples": ["quo_06gtv1alff3htg9thvlvj59t20"]}),
        Parameter("credit_note_id", "Id of the credit note.", {**_ID, "examples": ["crn_06gtv1alff3htg9thvlvj59t20"]}),
        *(
            Parameter(name, "Id of the estimate.", {**_ID, "examples": ["est_06gtv168mimt7f59c5an0fgcj0"]})
            for name in (
                *("estimate_id", "flight_estimate_id", "electricity_estimate_id"),
                *("hotel_estimate_id", "emission_factor_estimate_id", "passenger_transportation_estimate_id"),
                *("shipping_estimate_id", "multi_leg_estimate_id", "transaction_estimate_id"),
            )
        ),
        Parameter("transaction_key", "Idempotency key of the estimate.", {**_ID, "examples": ["card-4711"]}),
        Parameter(
            "factor_id",
            "Id of the emission factor. Slashes in it may be encoded as `%2F`.",
            {**_ID, "examples": ["owid-2023/electricity-deu/kwh"]},
        ),
        Parameter("bundle_id", "Id of the bundle.", {**_ID, "examples": ["bun_06gtv168k5mt6mitjtjihcsfns"]}),
        Parameter("project_id", "Id of the project.", {**_ID, "examples": ["prj_06gtv168k1mt6nqbnbhk0fqhp4"]}),
        Parameter("project_slug", "Name of the project in URLs.", {**_ID, "examples": ["sierra-wind-farm"]}),
        Parameter("offset_link_id", "Id of the offset link.", {**_ID, "examples": ["lnk_6s0h1v3m9k2qdb7t4n8cfj5gau"]}),
        Parameter("checkout_id", "Id of the checkout.", {**_ID, "examples": ["chk_06gtv6a2k5mt6mitjtjihcsfns"]}),
        Parameter("webhook_id", "Id of the webhook.", {**_ID, "examples": ["wh_06gtv1alff3htg9thvlvj59t20"]}),
        Parameter("api_key_id", "Id of the API key.", {**_ID, "examples": ["key_06gtv1alff3htg9thvlvj59t20"]}),
        Parameter("event_id", "Id of the event.", {**_ID, "examples": ["evt_06gtv1alff3htg9thvlvj59t20"]}),
        Parameter(
            "idempotency_key",
            "The key that the order was placed with, URL-encoded: a slash in it is `%2F`.",
            {**_ID, "examples": ["flight-2026-11-15-0042"]},
        ),
        Parameter("type", "Mode of the account.", {"type": "string", "enum": ["live", "test"], "examples": ["live"]}),
        Parameter("slug", "Slug of the page, now or earlier.", {**_ID, "examples": ["acme"]}),
        Parameter("handle", "Handle of the account.", {**_ID, "examples": ["fjord-bakery"]}),
        Parameter(
            "organisation_id", "Id of the organisation.", {**_ID, "examples": ["org_06dq2k8v7p3h5n9s4t1w0x2y6z"]}
        ),
        Parameter(
            "temporary_id",
            "The temporary id in the redirect after the payment.",
            {"type": "string", "format": "uuid", "examples": ["0f8c5d52-6a0e-5f0c-9d5b-0c5f2b3c7e11"]},
        ),
    )
}
