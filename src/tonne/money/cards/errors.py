from tonne.platform.values.errors import Kind, TonneError
from tonne.platform.values.language import N_


class OrderPaidByInvoice(TonneError, kind=Kind.CONFLICT, code="order_paid_by_invoice"):
    """A test helper for cards is used for an order paid by invoice, or billed together with others.

    Use `settle-invoice`.
    """

    message = "This order is paid by invoice, not by card. Use the settle-invoice test helper."


class ChargeUnderWay(TonneError, kind=Kind.CONFLICT, code="charge_under_way"):
    """A test helper is asked to pay or decline while a charge of the order is pending.

    Read the order again in a moment.
    """

    message = "A charge of this order is in progress. Read the order again in a moment."


class SignatureRefused(TonneError, kind=Kind.INVALID, code="signature_invalid"):
    """A request to `/gateways/stripe/webhook` is not signed with the webhook's secret, or was signed more than five
    minutes ago.

    Set the signing secret that Stripe shows for this webhook, and check the clock.
    """

    message = "The event is not signed with the secret of this webhook, or its signature is too old. Check the secret."


class CardUnknown(TonneError, kind=Kind.INVALID, code="card_unknown"):
    """On the command line: the gateway does not know the card, or not for this customer.

    Check both ids; in test mode use one of the test numbers.

    Command line only; the gateway's message says which id is wrong.
    """

    message = "The gateway has no such card. Check the ids of customer and card."


class CardNotStored(TonneError, kind=Kind.NOT_FOUND, code="card_not_stored"):
    """On the command line: the account has no card.

    Store one with `tonne card set`.
    """

    message = "The account has no card. Store one with `tonne card set`."


class ChargeUnknown(TonneError, kind=Kind.NOT_FOUND, code="charge_not_found"):
    """On the command line: there is no such charge.

    See `tonne charge list`.
    """

    message = "There is no such charge. Run `tonne charge list` to see charges."


class CardGatewayUnavailable(TonneError, kind=Kind.UNAVAILABLE, code="card_gateway_unavailable"):
    """On the command line: the card gateway did not respond, or refused our key.

    Try again later, or check `TONNE_STRIPE_SECRET_KEY`.
    """

    message = "The card gateway cannot be reached. Try again later."


class StripeNotConfigured(TonneError, kind=Kind.CONFLICT, code="stripe_not_set_up"):
    """On the command line: a card of a live account is to be stored, but no Stripe key is set.

    Set `TONNE_STRIPE_SECRET_KEY`.
    """

    message = "Stripe stores the cards of live accounts. Set TONNE_STRIPE_SECRET_KEY first."


class CardPageNotFound(TonneError, kind=Kind.NOT_FOUND, code="card_page_not_found"):
    """The link to the page of a card is incomplete, older than 90 days, or replaced by the one in a newer mail.

    Open the link in the newest mail.
    """

    message = N_("There is no such page. Open the link in the newest mail, and check that it is complete.")


class NothingToConfirm(TonneError, kind=Kind.CONFLICT, code="nothing_to_confirm"):
    """The payment was confirmed already, or may no longer be confirmed.

    See the page of the order.
    """

    message = N_("There is no payment to confirm any more. Go back to your order to see how it is.")


class PayerPageUnavailable(TonneError, kind=Kind.UNAVAILABLE, code="payer_page_unavailable"):
    """The payment provider cannot be reached; nothing was charged or stored.

    Try again in a few minutes.
    """

    message = N_("The payment provider cannot be reached. Nothing was charged. Try again in a few minutes.")


class TestCardUnknown(TonneError, kind=Kind.INVALID, code="test_card_unknown"):
    """The number entered in test mode is not a test card.

    Use one of those on the page.

    Never repeats the input, which may be a real card number.
    """

    message = N_("This is test mode. Use a test card such as 4242 4242 4242 4242, never a real card.")
