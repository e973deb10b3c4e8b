from tonne.platform.values.errors import Kind, TonneError
from tonne.platform.values.language import N_


class OffsetLinkNotFound(TonneError, kind=Kind.NOT_FOUND, code="offset_link_not_found"):
    """Also for links of other accounts, organisations or modes."""

    message = "There is no such offset link. Check the id, and the account and mode of the API key."


class OffsetLinkUnknown(TonneError, kind=Kind.INVALID, code="offset_link_not_found"):
    message = "There is no such offset link. Check the id, and the account and mode of the API key."


class OffsetLinkNotOpen(TonneError, kind=Kind.CONFLICT, code="offset_link_not_open"):
    message = "The offset link is disabled or has expired. Enable it, or use another one."


class CheckoutAmountMissing(TonneError, kind=Kind.INVALID, code="checkout_amount_missing"):
    message = "Send quantity or value: the offset link has no preset amount."


class ApiCheckoutNotFound(TonneError, kind=Kind.NOT_FOUND, code="checkout_not_found"):
    """Also for checkouts of other accounts, organisations or modes, and for those that visitors began."""

    message = "There is no such checkout. Check the id, and the account and mode of the API key."


class OffsetLinkAmountInvalid(TonneError, kind=Kind.INVALID, code="offset_link_amount_invalid"):
    message = (
        "The presets and limits of an offset link must fit together and have valid decimals for the account's currency."
    )


class OffsetLinkExpiryInvalid(TonneError, kind=Kind.INVALID, code="offset_link_expiry_invalid"):
    message = "The time in expires_at is in the past. Use a later time, or leave it out."


class OffsetLinkNotPayable(TonneError, kind=Kind.CONFLICT, code="offset_link_not_payable"):
    message = (
        "Nobody could pay through this link: the service has no card gateway for live mode. Ask its operator to set "
        "TONNE_STRIPE_SECRET_KEY, or send enabled as false and enable the link later."
    )


class SellerTakesNoCards(TonneError, kind=Kind.UNAVAILABLE, code="seller_takes_no_cards"):
    """In live mode, without a card gateway. Unlike an outage, this does not pass by itself."""

    message = N_("The seller cannot take card payments yet. Nothing was charged. Please contact the seller.")


class RedirectRefused(TonneError, kind=Kind.INVALID, code="redirect_url_refused"):
    message = "The redirect_url must be an https URL on one of the organisation's redirect hosts."


class PaymentNotFound(TonneError, kind=Kind.NOT_FOUND, code="payment_not_found"):
    """Unknown and expired ids, and those of other organisations, get the same answer."""

    message = "There is no payment with this temporary id, or it is older than 15 minutes."


class OffsetLinkClosed(TonneError, kind=Kind.NOT_FOUND, code="offset_link_closed"):
    """For links that do not exist, are disabled or have expired."""

    message = N_("This payment link isn't active. Ask the sender for a new one.")


class CheckoutNotFound(TonneError, kind=Kind.NOT_FOUND, code="checkout_not_found"):
    message = N_("This payment page doesn't exist. Open the payment link again.")


class CheckoutOver(TonneError, kind=Kind.CONFLICT, code="checkout_over"):
    message = N_("This payment session has expired. Nothing was charged. Please start again.")


class AmountInvalid(TonneError, kind=Kind.INVALID, code="amount_invalid"):
    message = N_("Enter the amount as a number such as 1.5, without thousands separators.")


class AmountOutOfBounds(TonneError, kind=Kind.INVALID, code="amount_out_of_bounds"):
    message = N_("The amount is outside the limits of this link. Choose another one.")


class BundleNotOffered(TonneError, kind=Kind.INVALID, code="bundle_not_offered"):
    message = N_("Choose at least one of the options.")


class BundleSoldOut(TonneError, kind=Kind.CONFLICT, code="bundle_sold_out"):
    message = N_("There isn't enough left. Choose a smaller amount or another option.")


class EmailInvalid(TonneError, kind=Kind.INVALID, code="email_invalid"):
    message = N_("Enter a valid e-mail address, such as you@example.com.")


class CustomerNameInvalid(TonneError, kind=Kind.INVALID, code="customer_name_invalid"):
    message = N_("A name has at most 200 printable characters on one line. Shorten it, or leave the field empty.")


class ConsentMissing(TonneError, kind=Kind.INVALID, code="consent_missing"):
    """On pages only."""

    message = N_("Tick the box to order as a consumer.")


class ExternalIdInvalid(TonneError, kind=Kind.INVALID, code="external_id_invalid"):
    message = N_("The external_id in this link must have 1 to 255 printable characters. Ask the sender for a new link.")


class LinkSignatureInvalid(TonneError, kind=Kind.INVALID, code="link_signature_invalid"):
    message = N_(
        "This payment link is incomplete or was changed. Nothing was charged. Ask the sender for a new link. To the "
        "sender: sign every parameter, including expires, with the link's current secret."
    )


class LinkSignatureExpired(TonneError, kind=Kind.INVALID, code="link_signature_expired"):
    message = N_("This payment link has expired. Nothing was charged. Ask the sender for a new link.")


class AlreadyPaid(TonneError, kind=Kind.CONFLICT, code="already_paid"):
    message = N_("This payment was already made, or is being made in another window. You don't need to pay again.")


class PaymentPageUnavailable(TonneError, kind=Kind.UNAVAILABLE, code="payment_page_unavailable"):
    message = N_("Card payment isn't available right now. Nothing was charged. Try again in a few minutes.")


class OrderPageNotFound(TonneError, kind=Kind.NOT_FOUND, code="order_page_not_found"):
    """On pages only."""

    message = N_("There is no such page. Check that the link is complete, as in the mail.")


class NothingToResend(TonneError, kind=Kind.CONFLICT, code="nothing_to_resend"):
    """Command line only."""

    message = "There is no mail about this order that can be sent again. Run `tonne order show` to see what was sent."
