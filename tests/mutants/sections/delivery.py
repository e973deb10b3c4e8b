"""Sections 4.6, 6.1, 6.4, 7 and 8: requests to the receiver, and what its responses mean."""

from tests.mutants.mutant import Mutant

SIGNING = "channels/webhooks/sending/signing.py"
SENDER = "channels/webhooks/sending/sender.py"
OUTCOMES = "channels/webhooks/delivery/outcomes.py"
SETTINGS = "platform/settings/settings.py"
TIMEOUT = "webhook_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=30)] = 30.0"
ACCEPTED = "if status is not None and 200 <= status < 300:"
REFUSED = (300, 301, 302, 304, 400, 401, 404, 409, 410, 429, 500, 503)


def _accepts(name: str, condition: str, check: str) -> Mutant:
    return Mutant(name, OUTCOMES, ACCEPTED, f"if {condition}:", check)


MUTANTS = [
    Mutant(
        "a text instead of JSON",
        SIGNING,
        '"Content-Type": "application/json"',
        '"Content-Type": "text/plain"',
        "delivery.every_request_says_that_it_is_json",
    ),
    Mutant(
        "a header without HMAC",
        SIGNING,
        'f"{brand}-HMAC": signature',
        'f"{brand}-Signature": signature',
        "delivery.every_request_has_the_signature_header",
    ),
    Mutant(
        "a header of another brand",
        SIGNING,
        'f"{brand}-HMAC": signature',
        '"X-HMAC": signature',
        "signatures.the_header_carries_the_brand",
    ),
    Mutant(
        "PUT",
        SENDER,
        "self._session.post(url, data=body",
        "self._session.put(url, data=body",
        "delivery.every_request_is_a_post",
    ),
    Mutant(
        "a body that is an array",
        "channels/webhooks/model.py",
        """b'{"events":[%b]}' % self.events""",
        "b'[%b]' % self.events",
        "delivery.every_body_is_a_json_object",
    ),
    _accepts("only 200 acknowledges", "status == 200", "delivery.each_2xx_acknowledges_the_events.201"),
    _accepts("202 does not acknowledge", "status in {200, 201, 204}", "delivery.each_2xx_acknowledges_the_events.202"),
    _accepts(
        "204 does not acknowledge",
        "status is not None and 200 <= status < 204",
        "delivery.each_2xx_acknowledges_the_events.204",
    ),
    _accepts(
        "299 does not acknowledge",
        "status is not None and 200 <= status < 299",
        "delivery.each_2xx_acknowledges_the_events.299",
    ),
    *(
        _accepts(
            f"{status} acknowledges",
            f"status is not None and (200 <= status < 300 or status == {status})",
            f"delivery.each_other_response_leads_to_a_redelivery.{status}",
        )
        for status in REFUSED
    ),
    _accepts(
        "no response acknowledges",
        "status is None or 200 <= status < 300",
        "delivery.each_other_response_leads_to_a_redelivery.closed-connection",
    ),
    *(
        _accepts(
            f"an event is given up after {status}",
            f"status is not None and (200 <= status < 300 or status == {status})",
            f"delivery.each_refused_event_is_acknowledged_in_the_end.{status}",
        )
        for status in (410, 500)
    ),
    Mutant(
        "receivers do not get order.received",
        "channels/webhooks/model.py",
        "for each in NAMEABLE[:7])",
        "for each in NAMEABLE[1:7])",
        "delivery.every_receiver_gets_all_events",
    ),
    Mutant(
        "a pause that does not grow",
        "channels/webhooks/delivery/schedule.py",
        "BACKOFF_S = (1, 2, 5, 15, 30, 60, 120, 300, 600, 1800, 3600)",
        "BACKOFF_S = (1,) * 11",
        "guarantees.the_pause_grows_with_the_failed_attempts",
    ),
    Mutant(
        "a limit of 25 s",
        SETTINGS,
        TIMEOUT,
        TIMEOUT.replace("30.0", "25.0"),
        "timeouts.a_reply_after_29_seconds_acknowledges",
    ),
    Mutant(
        "the service waits for 25 s",
        SETTINGS,
        TIMEOUT,
        TIMEOUT.replace("30.0", "25.0"),
        "timeouts.the_service_waits_for_29_seconds",
    ),
    Mutant(
        "a limit of 35 s",
        SENDER,
        "self._timeout_s = settings.webhook_timeout_s",
        "self._timeout_s = 35.0",
        "timeouts.a_reply_after_31_seconds_is_too_late",
    ),
    _accepts(
        "a timeout acknowledges",
        'error == "timeout" or (status is not None and 200 <= status < 300)',
        "timeouts.events_of_a_timed_out_request_are_acknowledged_later",
    ),
]
