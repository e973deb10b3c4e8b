from tonne.platform.values.errors import Kind, TonneError
from tonne.platform.values.language import N_


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


class ChargeUnknown(TonneError, kind=Kind.NOT_FOUND, code="charge_not_found"):
    """Command line only."""

    message = "There is no such charge. Run `tonne charge list` to see charges."


class CardGatewayUnavailable(TonneError, kind=Kind.UNAVAILABLE, code="card_gateway_unavailable"):
    message = "The card gateway cannot be reached. Try again later."


class StripeNotConfigured(TonneError, kind=Kind.CONFLICT, code="stripe_not_set_up"):
    message = "Stripe stores the cards of live accounts. Set TONNE_STRIPE_SECRET_KEY first."


class CardPageNotFound(TonneError, kind=Kind.NOT_FOUND, code="card_page_not_found"):
    """On pages only."""

    message = N_("There is no such page. Check that the link is complete, as in the mail.")


class NothingToConfirm(TonneError, kind=Kind.CONFLICT, code="nothing_to_confirm"):
    """On pages only."""

    message = N_("There is no payment to confirm any more. Go back to your order to see how it is.")


class PayerPageUnavailable(TonneError, kind=Kind.UNAVAILABLE, code="payer_page_unavailable"):
    """On pages only."""

    message = N_("The payment provider cannot be reached. Nothing was charged. Try again in a few minutes.")


class TestCardUnknown(TonneError, kind=Kind.INVALID, code="test_card_unknown"):
    """Never repeats the input, which may be a real card number."""

    message = N_("This is test mode. Use a test card such as 4242 4242 4242 4242, never a real card.")
