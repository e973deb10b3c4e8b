from tonne.base.errors import Kind, TonneError


class OrderPaidByInvoice(TonneError, kind=Kind.CONFLICT, code="order_paid_by_invoice"):
    message = "This order is paid by invoice, not by card. Use the settle-invoice test helper."


class ChargeUnderWay(TonneError, kind=Kind.CONFLICT, code="charge_under_way"):
    message = "A charge of this order is in progress. Read the order again in a moment."


class SignatureRefused(TonneError, kind=Kind.INVALID, code="signature_invalid"):
    message = "The event is not signed with the secret of this webhook, or its signature is too old. Check the secret."


class CardUnknown(TonneError, kind=Kind.INVALID, code="card_unknown"):
    """Command line only; the gateway's message says which id is wrong."""

    message = "The gateway has no such card. Check the ids of customer and card."


class CardNotStored(TonneError, kind=Kind.NOT_FOUND, code="card_not_stored"):
    message = "The account has no card. Store one with `tonne card set`."


class CardGatewayUnavailable(TonneError, kind=Kind.UNAVAILABLE, code="card_gateway_unavailable"):
    message = "The card gateway cannot be reached. Try again later."


class StripeNotConfigured(TonneError, kind=Kind.CONFLICT, code="stripe_not_set_up"):
    message = "Stripe stores the cards of live accounts. Set TONNE_STRIPE_SECRET_KEY first."
