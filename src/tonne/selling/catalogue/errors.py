import msgspec

from tonne.platform.values.amounts import format_money, format_tonnes
from tonne.platform.values.errors import Kind, TonneError
from tonne.platform.values.language import N_


class BundleNotFound(TonneError, kind=Kind.NOT_FOUND, code="bundle_not_found"):
    """There is no such bundle in this mode.

    See `GET /v1/bundles`.
    """

    message = "There is no such bundle: GET /v1/bundles lists them."


class ProjectNotFound(TonneError, kind=Kind.NOT_FOUND, code="project_not_found"):
    """There is no such project in this mode.

    See `GET /v1/projects`.
    """

    message = "There is no such project: GET /v1/projects lists them."


class ImageNotFound(TonneError, kind=Kind.NOT_FOUND, code="image_not_found"):
    """There is no such image.

    Use `primary_image` unchanged.
    """

    message = "There is no such image."


class RatiosInvalid(TonneError, kind=Kind.INVALID, code="bundle_selection_ratios_invalid"):
    """The percentages do not sum to exactly 100, only some bundles have one, or the selection is empty.

    Give all percentages or none, summing to 100; omit the field for the default.
    """

    message = "Send a percentage for every bundle or for none. Percentages must sum to exactly 100."


class RatiosInvalidFormat(TonneError, kind=Kind.INVALID, code="bundle_selection_ratios_invalid_format"):
    """A percentage is not a number above 0 and up to 100 with at most 12 decimals.

    Send `33.34` or `"33.34"`.
    """

    message = (
        "A percentage is a number above 0 and at most 100, with at most 12 decimals, such as 33.34. Leave a bundle out "
        "instead of giving it 0."
    )


class BundleInvalid(TonneError, kind=Kind.INVALID, code="bundle_selection_bundle_invalid"):
    """A bundle of `bundle_selection` or `bundle_masses` is unknown, not on sale, of the other mode, or named twice.

    Select from `GET /v1/bundles`.
    """

    message = "The bundle does not exist or is not enabled: GET /v1/bundles lists the available ones."


class QuantityInvalid(TonneError, kind=Kind.INVALID, code="order_quantity_invalid"):
    """The quantity is below 1 gram, or below one unit of `quantity_trunc`, or above 100,000,000 tonnes, also if a
    value would buy that much.

    Check amount and unit.
    """

    message = N_("The quantity must be at least 1 gram and at most 100,000,000 tonnes.")


class ValueInvalid(TonneError, kind=Kind.INVALID, code="order_value_invalid"):
    """The value buys less than 1 gram or one unit of `quantity_trunc`, is below one minor unit, or has more decimals
    than the account's currency.

    Send a larger value, or fewer decimals.
    """

    message = N_("The value must buy at least 1 gram and have no more decimals than the account's currency.")


class PriceUnavailable(TonneError, kind=Kind.CONFLICT, code="price_unavailable"):
    """A quote is requested, or an order with `reject_if_short`, while there is no exchange rate, only one that is too
    old (live mode), or no usable default selection; other orders are accepted and wait.

    Try again later, or send `bundle_selection`.

    The request is valid, but cannot be priced now: an order is accepted and waits, a quote is refused.
    """

    message = N_(
        "No price is available right now. Try again later, or place an order: it is priced as soon as possible."
    )


class PriceRoundsToZero(TonneError, kind=Kind.CONFLICT, code="price_rounds_to_zero"):
    """The price of a tonne rounds to zero in the account's currency, usually because an exchange rate is wrong.

    Select another bundle, or ask the operator to correct the exchange rate.

    Refused, so that a wrong exchange rate does not give credits away.
    """

    message = N_(
        "The price of a tonne rounds to zero in the account's currency, so it cannot be sold. Check the exchange rate."
    )


class BelowMinimumOrder(TonneError, kind=Kind.INVALID, code="below_minimum_order"):
    """The total cost, before tax, is less than the minimum of the service or the account in this currency.

    Order more at a time.
    """

    message = N_("The order is smaller than the minimum. Choose a larger amount.")


class SmallestPayment(msgspec.Struct, frozen=True):
    """The smallest amount that a card can pay for some bundles, and what it buys of them."""

    amount_minor: int
    currency: str
    quantity_grams: int


class ChargeTooSmall(TonneError, kind=Kind.INVALID, code="charge_too_small"):
    """The order is paid by card, and its total or value is less than a card can be charged in this currency.

    Order more at a time: `minimum` is the smallest amount that can be paid, and `quantity_at_minimum` the tonnes that
    it buys of the same bundles.
    """

    message = N_("The total is less than a card can be charged. Choose a larger amount.")

    def __init__(
        self,
        message: str | None = None,
        *,
        field: str | None = None,
        smallest: SmallestPayment | None = None,
        **values: object,
    ) -> None:
        super().__init__(message, field=field, **values)
        self.smallest = smallest
        if smallest is not None:
            minimum = format_money(smallest.amount_minor, smallest.currency)
            quantity = format_tonnes(smallest.quantity_grams)
            [fault] = self.faults
            self.faults = (msgspec.structs.replace(fault, minimum=minimum, quantity_at_minimum=quantity),)


class PriceChangeNotFound(TonneError, kind=Kind.NOT_FOUND, code="price_change_not_found"):
    """On the command line: there is no such price change, or it is applied or cancelled.

    See *Catalogue and prices* in the operator's area.
    """

    message = "There is no such price change, or it is already applied or cancelled."


class PriceChangeConflict(TonneError, kind=Kind.CONFLICT, code="price_change_conflict"):
    """On the command line: a bundle gets two new prices at the same time.

    Cancel the first, or choose another time.
    """

    message = "The bundle already gets a new price at this time. Cancel that change first, or choose another time."


class PictureInvalid(TonneError, kind=Kind.INVALID, code="picture_invalid"):
    """An uploaded picture cannot be used: format, size, or damaged.

    The message says what to change.
    """

    message = "The file is no JPEG, PNG or WebP picture. Convert it to one of these formats."


class PictureSubjectNotFound(TonneError, kind=Kind.NOT_FOUND, code="picture_subject_not_found"):
    """A picture was given for a bundle or project that the catalogue does not have.

    Correct its slug.
    """

    message = "The catalogue has no such bundle or project. `tonne picture list` lists them."


# Of every request that names bundles, and of every one that is priced.
SELECTION_ERRORS = (BundleInvalid, RatiosInvalid, RatiosInvalidFormat)
PRICE_ERRORS = (ChargeTooSmall, BelowMinimumOrder, PriceRoundsToZero)
