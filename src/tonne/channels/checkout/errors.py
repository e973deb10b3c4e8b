from tonne.platform.values.errors import Kind, TonneError
from tonne.platform.values.language import N_
from tonne.supply.stock.holds.holds import Unheld


class OffsetLinkNotFound(TonneError, kind=Kind.NOT_FOUND, code="offset_link_not_found"):
    """There is no such offset link in this account and mode; a link of another account gets the same response: 400
    when a checkout refers to it, 404 when it is read.

    See `GET /v1/offset-links`, and check the key's account and mode.

    Also for links of other accounts, organisations or modes.
    """

    message = "There is no such offset link. Check the id, and the account and mode of the API key."


class OffsetLinkUnknown(TonneError, kind=Kind.INVALID, code="offset_link_not_found"):
    message = "There is no such offset link. Check the id, and the account and mode of the API key."


class OffsetLinkNotOpen(TonneError, kind=Kind.CONFLICT, code="offset_link_not_open"):
    """A checkout is created for a link that is disabled or expired.

    Enable the link, or use another one.
    """

    message = "The offset link is disabled or has expired. Enable it, or use another one."


class CheckoutAmountMissing(TonneError, kind=Kind.INVALID, code="checkout_amount_missing"):
    """A checkout has neither `quantity` nor `value`, and its link has no preset.

    Send one of them.
    """

    message = "Send quantity or value: the offset link has no preset amount."


class ApiCheckoutNotFound(TonneError, kind=Kind.NOT_FOUND, code="checkout_not_found"):
    """Also for checkouts of other accounts, organisations or modes, and for those that visitors began."""

    message = "There is no such checkout. Check the id, and the account and mode of the API key."


class OffsetLinkAmountInvalid(TonneError, kind=Kind.INVALID, code="offset_link_amount_invalid"):
    """A preset or limit of an offset link is zero or has too many decimals, a preset is outside the limits, a minimum
    is above the maximum, both presets are given, or the amount is neither preset nor editable.

    Fix the setting named in `field`.
    """

    message = (
        "The presets and limits of an offset link must fit together and have valid decimals for the account's currency."
    )


class OffsetLinkExpiryInvalid(TonneError, kind=Kind.INVALID, code="offset_link_expiry_invalid"):
    """`expires_at` of a new offset link is in the past.

    Give a future `expires_at`, or omit it.
    """

    message = "The time in expires_at is in the past. Use a later time, or leave it out."


class OffsetLinkNotPayable(TonneError, kind=Kind.CONFLICT, code="offset_link_not_payable"):
    """A live offset link is created or enabled, but the service has no card gateway.

    Ask the operator to set `TONNE_STRIPE_SECRET_KEY`, or send `"enabled": false`.
    """

    message = (
        "Nobody could pay through this link: the service has no card gateway for live mode. Ask its operator to set "
        "TONNE_STRIPE_SECRET_KEY, or send enabled as false and enable the link later."
    )


class SellerTakesNoCards(TonneError, kind=Kind.UNAVAILABLE, code="seller_takes_no_cards"):
    """The link is live, but the service has no card gateway.

    Contact the seller; the operator sets `TONNE_STRIPE_SECRET_KEY`.

    In live mode, without a card gateway. Unlike an outage, this does not pass by itself.
    """

    message = N_("The seller cannot take card payments yet. Nothing was charged. Please contact the seller.")


class RedirectRefused(TonneError, kind=Kind.INVALID, code="redirect_url_refused"):
    """A redirect URL is not https, is longer than 2,000 characters, contains credentials, spaces, control characters
    or a backslash, or its host is not allowed by the organisation.

    Use a URL of an allowed host; the operator allows one with `tonne org allow-redirect`.
    """

    message = "The redirect_url must be an https URL on one of the organisation's redirect hosts."


class PaymentNotFound(TonneError, kind=Kind.NOT_FOUND, code="payment_not_found"):
    """There is no payment with this temporary id in this organisation and mode, or it is older than 15 minutes.

    Look it up as soon as the customer returns; later, find the order by its `external_id` or `GET
    /v1/orders?offset_link_id=…`.

    Unknown and expired ids, and those of other organisations, get the same answer.
    """

    message = "There is no payment with this temporary id, or it is older than 15 minutes."


class OffsetLinkClosed(TonneError, kind=Kind.NOT_FOUND, code="offset_link_closed"):
    """There is no such link, or it is disabled or expired.

    Ask for another one.

    For links that do not exist, are disabled or have expired.
    """

    message = N_("This payment link isn't active. Ask the sender for a new one.")


class CheckoutNotFound(TonneError, kind=Kind.NOT_FOUND, code="checkout_not_found"):
    """There is no such checkout in this account and mode, or a visitor began it on the page of a link.

    Check the id, and the key's account and mode.
    """

    message = N_("This payment page doesn't exist. Open the payment link again.")


class CheckoutOver(TonneError, kind=Kind.CONFLICT, code="checkout_over"):
    """The checkout has expired, or was replaced in another window.

    Open the link again; nothing was charged.
    """

    message = N_("This payment session has expired. Nothing was charged. Please start again.")


class AmountInvalid(TonneError, kind=Kind.INVALID, code="amount_invalid"):
    """The amount is not a plain number.

    Write it as `1.5` or `1,5`.
    """

    message = N_("Enter the amount as a number such as 1.5, without thousands separators.")


class AmountOutOfBounds(TonneError, kind=Kind.INVALID, code="amount_out_of_bounds"):
    """The amount is outside the limits of the link.

    Choose a larger or smaller amount.
    """

    message = N_("The amount is outside the limits of this link. Choose another one.")


class BundleNotOffered(TonneError, kind=Kind.INVALID, code="bundle_not_offered"):
    """No bundle is selected, or one that the link does not offer.

    Choose one of those on the page.
    """

    message = N_("Choose at least one of the options.")


class BundleSoldOut(TonneError, kind=Kind.CONFLICT, code="bundle_sold_out"):
    """Too little of a bundle is left.

    Choose a smaller amount, or another bundle.
    """

    message = N_("There isn't enough left. Choose a smaller amount or another option.")


class EmailInvalid(TonneError, kind=Kind.INVALID, code="email_invalid"):
    """The e-mail address is not valid.

    Write it as `you@example.com`.
    """

    message = N_("Enter a valid e-mail address, such as you@example.com.")


class CustomerNameInvalid(TonneError, kind=Kind.INVALID, code="customer_name_invalid"):
    """The name on the certificate that a customer entered is not valid.

    Enter at most 200 printable characters on one line, or leave the field empty.
    """

    message = N_("A name has at most 200 printable characters on one line. Shorten it, or leave the field empty.")


class ConsentMissing(TonneError, kind=Kind.INVALID, code="consent_missing"):
    """On the payment page: a consumer has not agreed that the credits are retired before the withdrawal period ends.

    Tick the box, or say that you buy for a business.
    """

    message = N_("Tick the box to order as a consumer.")


class BuyerInvalid(TonneError, kind=Kind.INVALID, code="buyer_invalid"):
    """A detail of the buyer, for the invoice, is not valid: too long, no country, or a VAT ID that is none.

    Fix the detail named in `field`.
    """

    message = N_("Use at most %(most)s printable characters on one line.")


class BuyerIncomplete(TonneError, kind=Kind.INVALID, code="buyer_incomplete"):
    """On the payment page: the invoice must state a detail of the buyer that is not filled in.

    Fill in the marked fields.
    """

    message = N_("Fill in this field.")


class VatIdUnconfirmed(TonneError, kind=Kind.CONFLICT, code="vat_id_unconfirmed"):
    """On the payment page, in live mode: the register of the EU does not confirm the VAT ID, or does not respond.

    Pay with tax, or check the VAT ID and try again later.
    """

    message = N_(
        "The register of the EU did not confirm this VAT ID, so tax is charged. Check it and try again, or pay with "
        "tax."
    )


class BuyerFixed(TonneError, kind=Kind.CONFLICT, code="buyer_fixed"):
    """On the payment page: the order exists, and with the other buyer, country or VAT ID its tax would be another.

    Start again from the link of the seller.
    """

    message = N_("The tax of your order is fixed. Start again to change the country, the VAT ID or who buys.")


class ReferenceInvalid(TonneError, kind=Kind.INVALID, code="reference_invalid"):
    """The `reference` in the link is not valid.

    It must have 1 to 200 printable characters on one line.
    """

    message = N_("The reference in this link must have 1 to 200 printable characters. Ask the sender for a new link.")


class ExternalIdInvalid(TonneError, kind=Kind.INVALID, code="external_id_invalid"):
    """The `external_id` in the link is not valid.

    Use 1 to 255 printable characters.
    """

    message = N_("The external_id in this link must have 1 to 255 printable characters. Ask the sender for a new link.")


class LinkSignatureInvalid(TonneError, kind=Kind.INVALID, code="link_signature_invalid"):
    """A link has a signature that does not match its parameters, or no valid `expires`.

    Ask for a new link; the sender signs all parameters with the link's current secret, as
    [described](offset-links.md#signed-links).
    """

    message = N_(
        "This payment link is incomplete or was changed. Nothing was charged. Ask the sender for a new link. To the "
        "sender: sign every parameter, including expires, with the link's current secret."
    )


class LinkSignatureExpired(TonneError, kind=Kind.INVALID, code="link_signature_expired"):
    """The `expires` of a signed link is in the past.

    Ask for a new link; the sender signs one with a later `expires`.
    """

    message = N_("This payment link has expired. Nothing was charged. Ask the sender for a new link.")


class AlreadyPaid(TonneError, kind=Kind.CONFLICT, code="already_paid"):
    """The checkout with this `external_id` was completed, or is being paid in another window.

    Nothing more is due.
    """

    message = N_("This payment was already made, or is being made in another window. You don't need to pay again.")


class PaymentPageUnavailable(TonneError, kind=Kind.UNAVAILABLE, code="payment_page_unavailable"):
    """The card gateway's page cannot be opened, or no gateway is set up.

    Try again in a few minutes.
    """

    message = N_("Card payment isn't available right now. Nothing was charged. Try again in a few minutes.")


class DeliveryMayWait(TonneError, kind=Kind.CONFLICT, code="delivery_may_wait"):
    """The amount cannot be held for a customer while they pay, although there is enough: the page says so.

    Pay once more to accept that delivery may take longer, or choose a smaller amount.
    """

    message = "The amount cannot be held while it is paid, so that delivery may take longer. Nothing was charged yet."

    def __init__(self, why: Unheld) -> None:
        super().__init__()
        self.why = why


class OrderPageNotFound(TonneError, kind=Kind.NOT_FOUND, code="order_page_not_found"):
    """The link to the page of an order is incomplete or not one of ours, or there is no certificate yet.

    Open the link in the mail again.
    """

    message = N_("There is no such page. Check that the link is complete, as in the mail.")


class NothingToResend(TonneError, kind=Kind.CONFLICT, code="nothing_to_resend"):
    """On the command line: no mail about an order can be sent again, or an order without a customer gets an address.

    See `tonne order show`.
    """

    message = "There is no mail about this order that can be sent again. Run `tonne order show` to see what was sent."
