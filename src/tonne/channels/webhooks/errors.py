from tonne.platform.values.errors import Kind, TonneError


class WebhookNotFound(TonneError, kind=Kind.NOT_FOUND, code="webhook_not_found"):
    message = "There is no such webhook."


class WebhookUrlInvalid(TonneError, kind=Kind.INVALID, code="webhook_url_invalid"):
    message = "The url must be a public https address."


class WebhookAccountInvalid(TonneError, kind=Kind.INVALID, code="webhook_account_invalid"):
    message = "There is no such account in this organisation and mode."


class WebhookLimitReached(TonneError, kind=Kind.CONFLICT, code="webhook_limit_reached"):
    message = "An organisation can have at most 16 webhooks in each mode. Delete one first."


class RewindInvalid(TonneError, kind=Kind.INVALID, code="webhook_rewind_invalid"):
    message = "Give either a sequence or the event_id of an event of this organisation and mode."


class EventNotParked(TonneError, kind=Kind.CONFLICT, code="event_not_parked"):
    message = "Only the refused event of a parked account can be skipped. See delivery.parked of the webhook."
