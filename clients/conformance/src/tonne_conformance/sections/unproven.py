"""Sentences that an API key and a receiver cannot prove, each with the reason."""

from tonne_conformance.checks import Unproven

UNPROVEN = (
    Unproven(
        "1",
        "With `invoice`, the service e-mails an invoice with payment instructions.",
        "The mail goes to the organisation, whose mailbox the suite cannot read.",
    ),
    Unproven(
        "1",
        "Webhooks registered in the dashboard cover all Accounts and Client Accounts of the organisation.",
        "It needs a person who is signed in to the dashboard.",
    ),
    Unproven(
        "2.1",
        "The projects within a bundle may change with supply.",
        "It needs an operator who changes the supply.",
    ),
    Unproven(
        "4.5",
        "Live keys give live events.",
        "It needs an order in live mode, and the suite never places one.",
    ),
    Unproven(
        "6.4",
        "Events of different accounts may arrive out of order.",
        "It permits something and promises nothing.",
    ),
    Unproven(
        "6.4",
        "Head-of-line blocking: An unacknowledged event can hold up later events in the same queue.",
        "It permits something and promises nothing.",
    ),
    Unproven(
        "6.6",
        "Receivers registered in the dashboard get test or live events according to whether test mode was on.",
        "It needs a person who is signed in to the dashboard.",
    ),
    Unproven(
        "6.6",
        "They get events for all Accounts and Client Accounts of the organisation.",
        "It needs a person who is signed in to the dashboard.",
    ),
    Unproven(
        "7",
        "Webhook signature does not match: The receiver discards the request.",
        "What a receiver does is up to its owner; the suite proves that a changed body does not match.",
    ),
    Unproven(
        "8",
        "Webhook URL scheme: HTTPS only (dashboard registration).",
        "It needs a person who is signed in to the dashboard.",
    ),
)
