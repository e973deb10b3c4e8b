from tonne.platform.values.errors import Kind, TonneError
from tonne.platform.values.language import N_


class BundleNotFound(TonneError, kind=Kind.NOT_FOUND, code="bundle_not_found"):
    message = "There is no such bundle: GET /v1/bundles lists them."


class ProjectNotFound(TonneError, kind=Kind.NOT_FOUND, code="project_not_found"):
    message = "There is no such project: GET /v1/projects lists them."


class ImageNotFound(TonneError, kind=Kind.NOT_FOUND, code="image_not_found"):
    message = "There is no such image."


class RatiosInvalid(TonneError, kind=Kind.INVALID, code="bundle_selection_ratios_invalid"):
    message = "Send a percentage for every bundle or for none. Percentages must sum to exactly 100."


class RatiosInvalidFormat(TonneError, kind=Kind.INVALID, code="bundle_selection_ratios_invalid_format"):
    message = "A percentage is a number above 0 and at most 100, with at most 2 decimals, such as 33.34."


class BundleInvalid(TonneError, kind=Kind.INVALID, code="bundle_selection_bundle_invalid"):
    message = "The bundle does not exist or is not enabled: GET /v1/bundles lists the available ones."


class QuantityInvalid(TonneError, kind=Kind.INVALID, code="order_quantity_invalid"):
    message = N_("The quantity must be at least 1 gram and at most 100,000,000 tonnes.")


class ValueInvalid(TonneError, kind=Kind.INVALID, code="order_value_invalid"):
    message = N_("The value must buy at least 1 gram and have no more decimals than the account's currency.")


class PriceUnavailable(TonneError, kind=Kind.CONFLICT, code="price_unavailable"):
    """The request is valid, but cannot be priced now: an order is accepted and waits, a quote is refused."""

    message = N_(
        "No price is available right now. Try again later, or place an order: it is priced as soon as possible."
    )


class PriceRoundsToZero(TonneError, kind=Kind.CONFLICT, code="price_rounds_to_zero"):
    """Refused, so that a wrong exchange rate does not give credits away."""

    message = N_(
        "The price of a tonne rounds to zero in the account's currency, so it cannot be sold. Check the exchange rate."
    )


class BelowMinimumOrder(TonneError, kind=Kind.INVALID, code="below_minimum_order"):
    message = N_("The order is smaller than the minimum. Choose a larger amount.")


class ChargeTooSmall(TonneError, kind=Kind.INVALID, code="charge_too_small"):
    message = N_("The total is less than a card can be charged. Choose a larger amount.")


class PriceChangeNotFound(TonneError, kind=Kind.NOT_FOUND, code="price_change_not_found"):
    message = "There is no such price change, or it is already applied or cancelled."


class PriceChangeConflict(TonneError, kind=Kind.CONFLICT, code="price_change_conflict"):
    message = "The bundle already gets a new price at this time. Cancel that change first, or choose another time."


class PictureInvalid(TonneError, kind=Kind.INVALID, code="picture_invalid"):
    message = "The file is no JPEG, PNG or WebP picture. Convert it to one of these formats."


class PictureSubjectNotFound(TonneError, kind=Kind.NOT_FOUND, code="picture_subject_not_found"):
    message = "The catalogue has no such bundle or project. `tonne picture list` lists them."
