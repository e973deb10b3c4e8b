from tonne.base.errors import Kind, TonneError


class OrderPaidByInvoice(TonneError):
    kind = Kind.CONFLICT
    code = "order_paid_by_invoice"
    message = "This order is paid by invoice, not by card: use settle-invoice of the test helpers."


class ChargeUnderWay(TonneError):
    kind = Kind.CONFLICT
    code = "charge_under_way"
    message = "A charge of this order is under way: read the order again in a moment."


class SignatureRefused(TonneError):
    kind = Kind.INVALID
    code = "signature_invalid"
    message = "This is not an event that Stripe has just signed with the secret of this webhook."


class CardUnknown(TonneError):
    """On the command line; the gateway says which of the two names it does not know."""

    kind = Kind.INVALID
    code = "card_unknown"
    message = "The gateway knows no such card."


class CardNotStored(TonneError):
    kind = Kind.NOT_FOUND
    code = "card_not_stored"
    message = "The account has no card: `tonne card set` stores one."


class CardGatewayUnavailable(TonneError):
    kind = Kind.UNAVAILABLE
    code = "card_gateway_unavailable"
    message = "The card gateway cannot be asked now: try again later."


class StripeNotSetUp(TonneError):
    kind = Kind.CONFLICT
    code = "stripe_not_set_up"
    message = "Cards of live accounts are kept by Stripe: set TONNE_STRIPE_SECRET_KEY first."
