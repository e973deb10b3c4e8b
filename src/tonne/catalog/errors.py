from tonne.base.errors import Kind, TonneError


class BundleNotFound(TonneError):
    kind = Kind.NOT_FOUND
    code = "bundle_not_found"
    message = "There is no such bundle: GET /v1/bundles lists them."


class ProjectNotFound(TonneError):
    kind = Kind.NOT_FOUND
    code = "project_not_found"
    message = "There is no such project: GET /v1/projects lists them."


class ImageNotFound(TonneError):
    kind = Kind.NOT_FOUND
    code = "image_not_found"
    message = "There is no such picture."


class RatiosInvalid(TonneError):
    kind = Kind.INVALID
    code = "bundle_selection_ratios_invalid"
    message = "Give a percentage for every bundle or for none, and let them sum to exactly 100."


class RatiosInvalidFormat(TonneError):
    kind = Kind.INVALID
    code = "bundle_selection_ratios_invalid_format"
    message = "A percentage is a number above 0 and at most 100, with at most 2 decimals, such as 33.34."


class BundleInvalid(TonneError):
    kind = Kind.INVALID
    code = "bundle_selection_bundle_invalid"
    message = "There is no such bundle to select: GET /v1/bundles lists them."


class QuantityInvalid(TonneError):
    kind = Kind.INVALID
    code = "order_quantity_invalid"
    message = "The quantity must be at least 1 gram and at most 100,000,000 tonnes."


class ValueInvalid(TonneError):
    kind = Kind.INVALID
    code = "order_value_invalid"
    message = "The value must buy at least 1 gram and have no more decimals than the account's currency."


class PriceUnavailable(TonneError):
    """Nothing is wrong with the request: an order is accepted and waits; a quote has to be refused."""

    kind = Kind.CONFLICT
    code = "price_unavailable"
    message = "There is no price right now. Try again later; an order would be accepted and priced as soon as possible."
