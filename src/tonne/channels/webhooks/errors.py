from tonne.platform.values.errors import Kind, TonneError


class WebhookNotFound(TonneError, kind=Kind.NOT_FOUND, code="webhook_not_found"):
    """There is no such webhook in this organisation and mode.

    See `GET /v1/webhooks`.
    """

    message = "There is no such webhook."


class WebhookUrlInvalid(TonneError, kind=Kind.INVALID, code="webhook_url_invalid"):
    """The webhook's URL is not https, its host cannot be resolved, or its address is not public.

    Register a public https URL; for development use `tonne listen`.
    """

    message = "The url must be a public https address."


class WebhookAccountInvalid(TonneError, kind=Kind.INVALID, code="webhook_account_invalid"):
    """`account_ids` contains an account outside this organisation and mode.

    Use your own accounts of the key's mode.
    """

    message = "There is no such account in this organisation and mode."


class WebhookLimitReached(TonneError, kind=Kind.CONFLICT, code="webhook_limit_reached"):
    """The organisation already has 16 webhooks in this mode.

    Delete one first.
    """

    message = "An organisation can have at most 16 webhooks in each mode. Delete one first."


class OverlapPromised(TonneError, kind=Kind.CONFLICT, code="webhook_overlap_promised"):
    """Three secrets sign the requests of the webhook. Another rotation would end the overlap of one of them before the
    promised time, which the message names.

    Rotate again after that time, or with `{"overlap_s": 0}`, which ends all older secrets at once.
    """

    message = (
        "Three secrets sign already, and one of the older ones was promised to sign until %(until)s. Replace the "
        "secret after that time, or without an overlap (overlap_s of 0), which ends all older secrets at once."
    )


class RewindInvalid(TonneError, kind=Kind.INVALID, code="webhook_rewind_invalid"):
    """`sequence` and `event_id` are both given or both missing, or the event does not exist.

    Give exactly one of the two.
    """

    message = "Give either a sequence or the event_id of an event of this organisation and mode."


class EventNotParked(TonneError, kind=Kind.CONFLICT, code="event_not_parked"):
    """The event to skip is not the one that an account is parked on.

    See `delivery.parked` of the webhook.
    """

    message = "Only the refused event of a parked account can be skipped. See delivery.parked of the webhook."
