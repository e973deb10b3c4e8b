"""Reads the forms about webhooks, and describes failed attempts."""

from datetime import UTC, datetime
from typing import NamedTuple

from tonne.apps.dashboard.viewer import Form
from tonne.channels.webhooks.model import NAMEABLE, STATUS_TYPES, Webhook, WebhookRequest
from tonne.channels.webhooks.schemas import RewindIn, WebhookIn
from tonne.platform.web.fields import fields_of

FIELDS = fields_of(WebhookIn)
CHOICES = ("disable_on_gone", "standard_webhooks")
# In hours: both secrets sign for that long.
OVERLAPS = {"0": "Not at all", "1": "1 hour", "24": "1 day", "168": "7 days"}
FIRST_OVERLAP = "24"
# By the `error` of an attempt: what happened, and what the owner of the receiver can do.
CAUSES = {
    "timeout": "The receiver did not respond in time. Store the events first, respond, and process them afterwards.",
    "certificate_invalid": "The certificate of the receiver is not valid. Renew it, or send the whole chain.",
    "name_not_found": "The host name does not exist. Check the address and the DNS records.",
    "tls_failed": "No TLS connection could be made. The receiver must support TLS 1.2 or later.",
    "connection_refused": "The receiver does not accept connections. Check that it runs, and its firewall.",
    "connection_lost": "The receiver closed the connection before it responded. Its log shows why.",
    "address_refused": "The address is not allowed. Use a public https address.",
    "redirect_refused": "The receiver redirects, which is not followed. Register the final address.",
    "status_refused": "The receiver responded with a status that is not 2xx. Its response says why.",
    "client_certificate_required": "The receiver asks for a client certificate, and this service presents none. Its "
    "operator can set one.",
    "proxy_unreachable": "Nothing was sent: the proxy of this service does not respond. Its operator must act.",
    "proxy_refused": "Nothing was sent: the proxy of this service could not reach the receiver, or refused to.",
    "answer_unreadable": "The response is not valid HTTP.",
    "secret_unreadable": "Nothing was sent: the signing secret cannot be read. Replace it, or ask the operator.",
}


def read_webhook(form: Form) -> WebhookRequest:
    accounts = tuple(form.value("account_ids").replace(",", " ").split())
    if len(accounts) > 1000:
        form.fail("account_ids", "Enter at most 1,000 accounts, or none for all.")
    types = tuple(each.value for each in NAMEABLE if form.is_checked(type_field(each)))
    url = form.text("url", "Enter the address of your receiver.", longest=2048)
    return WebhookRequest(url, accounts, types, **{name: form.is_checked(name) for name in CHOICES})


def form_of(webhook: Webhook) -> Form:
    """The form that would set what the webhook has."""
    ticked = {name: ["1"] for name in CHOICES if getattr(webhook, name)}
    return Form({"url": [webhook.url], "account_ids": [" ".join(webhook.account_ids)], **ticked})


def type_field(event_type: str) -> str:
    """The name of its checkbox."""
    return f"event_type_{event_type.replace('.', '_')}"


class TypeChoice(NamedTuple):
    """`is_default`: delivered to a webhook without a choice."""

    field: str
    name: str
    is_checked: bool
    is_default: bool


def type_choices(form: Form, present: tuple[str, ...]) -> list[TypeChoice]:
    """A checkbox per type: as it was sent, else as it is."""
    sent = form.value("url") != ""
    return [
        TypeChoice(
            type_field(each),
            each.value,
            form.is_checked(type_field(each)) if sent else each.value in present,
            each.value in STATUS_TYPES,
        )
        for each in NAMEABLE
    ]


def read_rewind(form: Form) -> RewindIn | None:
    """From an event, or from a time in UTC."""
    event_id, day, hour = form.value("event_id"), form.value("day"), form.value("time")
    if bool(event_id) == bool(day):
        form.fail("event_id", "Enter either an event or a day.")
        return None
    if event_id:
        return RewindIn(event_id=event_id)
    try:
        moment = datetime.fromisoformat(f"{day}T{hour or '00:00'}").replace(tzinfo=UTC)
    except ValueError:
        form.fail("day", "Enter a day such as 2026-11-15 and a time such as 09:30.")
        return None
    return RewindIn(sequence=moment.strftime("%Y-%m-%dT%H:%M:%SZ"))
