from tonne.base.errors import Kind, TonneError


class OffsetLinkNotFound(TonneError):
    """Also for a link of another account, organisation or mode: the answers are identical."""

    kind = Kind.NOT_FOUND
    code = "offset_link_not_found"
    message = "There is no such offset link."


class OffsetLinkAmountInvalid(TonneError):
    kind = Kind.INVALID
    code = "offset_link_amount_invalid"
    message = "The presets and bounds of an offset link must fit each other and the account's currency."


class OffsetLinkExpiryInvalid(TonneError):
    kind = Kind.INVALID
    code = "offset_link_expiry_invalid"
    message = "The link would have expired already: give an expires_at to come, or leave it out."


class RedirectRefused(TonneError):
    kind = Kind.INVALID
    code = "redirect_url_refused"
    message = "The redirect_url must be an https address on one of the hosts that the organisation allows."


class PaymentNotFound(TonneError):
    """Unknown, expired and foreign ids get one and the same answer."""

    kind = Kind.NOT_FOUND
    code = "payment_not_found"
    message = "There is no such payment, or its temporary id is older than 15 minutes."


class OffsetLinkClosed(TonneError):
    """What anybody sees at the address of a link that does not exist, is switched off or has expired."""

    kind = Kind.NOT_FOUND
    code = "offset_link_closed"
    message = "This payment link is not in use. Ask whoever gave it to you for another one."


class CheckoutNotFound(TonneError):
    kind = Kind.NOT_FOUND
    code = "checkout_not_found"
    message = "There is no such payment page. Open the payment link again."


class CheckoutOver(TonneError):
    kind = Kind.CONFLICT
    code = "checkout_over"
    message = "This payment session has run out. Nothing was charged: start again."


class AmountInvalid(TonneError):
    kind = Kind.INVALID
    code = "amount_invalid"
    message = "Write the amount as a plain number, such as 1.5, without signs between the thousands."


class AmountOutOfBounds(TonneError):
    kind = Kind.INVALID
    code = "amount_out_of_bounds"
    message = "The amount is outside what this link allows."


class BundleNotOffered(TonneError):
    kind = Kind.INVALID
    code = "bundle_not_offered"
    message = "Choose at least one of the bundles on offer."


class BundleSoldOut(TonneError):
    kind = Kind.CONFLICT
    code = "bundle_sold_out"
    message = "There is not enough of this bundle left: choose less, or another one."


class EmailInvalid(TonneError):
    kind = Kind.INVALID
    code = "email_invalid"
    message = "Give the e-mail address to which the certificate shall go, such as you@example.com."


class ExternalIdInvalid(TonneError):
    kind = Kind.INVALID
    code = "external_id_invalid"
    message = "The external_id of this link must be 1 to 255 printable characters. Ask whoever gave it to you."


class PriceChanged(TonneError):
    kind = Kind.CONFLICT
    code = "price_changed"
    message = "The price has changed since this page was opened. Nothing was charged: look at the new price."


class AlreadyPaid(TonneError):
    kind = Kind.CONFLICT
    code = "already_paid"
    message = "The payment with this reference has been made, or is being made, in another window. Nothing more is due."


class TestCardUnknown(TonneError):
    """Never repeats what was typed: it may be a real number."""

    kind = Kind.INVALID
    code = "test_card_unknown"
    message = (
        "This is test mode: use one of the test cards, such as 4242 4242 4242 4242. Real cards are never taken here."
    )


class PaymentPageUnavailable(TonneError):
    kind = Kind.UNAVAILABLE
    code = "payment_page_unavailable"
    message = "Card payment is not available right now. Nothing was charged: try again in a few minutes."
