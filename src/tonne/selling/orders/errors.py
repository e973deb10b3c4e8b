from tonne.platform.values.errors import Kind, TonneError
from tonne.platform.values.language import N_


class OrderNotFound(TonneError, kind=Kind.NOT_FOUND, code="order_not_found"):
    """Also for an order of another account, organisation or mode: the responses are identical."""

    message = "There is no such order."


class TransitionInvalid(TonneError, kind=Kind.CONFLICT, code="order_transition_invalid"):
    message = "The status of the order does not allow this."


class EstimateUnknown(TonneError, kind=Kind.INVALID, code="estimate_not_found"):
    """In the body of an order. GET on an unknown estimate returns 404 with the same code."""

    message = "There is no such estimate. Create one with POST /v1/estimates."


class SpendingLimitReached(TonneError, kind=Kind.FORBIDDEN, code="spending_limit_reached"):
    message = "The monthly limit is reached. It resets at the beginning of the next month (UTC)."


class LimitAmountInvalid(TonneError, kind=Kind.INVALID, code="limit_amount_invalid"):
    """Command line only."""

    message = "This is not an amount. Give one such as 1000.00, or none."


class OfferChanged(TonneError, kind=Kind.CONFLICT, code="price_changed"):
    """Also for another quantity, fee, line or project at the same price."""

    message = N_("The offer has changed since you opened this page. Nothing was charged. Please check the new offer.")


class SupplyInsufficient(TonneError, kind=Kind.CONFLICT, code="insufficient_available_quantity"):
    """Only for orders with `reject_if_short` and quotes with `hold_supply`; others wait for supply."""

    message = "Supply does not cover this order now. Order less or other bundles, or omit reject_if_short and wait."


class TimeRangeInvalid(TonneError, kind=Kind.INVALID, code="time_range_invalid"):
    message = "The time range is not valid."


class QuoteNotFound(TonneError, kind=Kind.NOT_FOUND, code="quote_not_found"):
    """Also for a quote of another account, organisation or mode."""

    message = "There is no such quote. Request one with POST /v1/quotes."


class QuoteUnknown(TonneError, kind=Kind.INVALID, code="quote_not_found"):
    """In the body of an order. GET on an unknown quote returns 404 with the same code."""

    message = "There is no such quote. Request one with POST /v1/quotes."


class QuoteExpired(TonneError, kind=Kind.CONFLICT, code="quote_expired"):
    message = "The quote has expired. Request a new one with POST /v1/quotes."


class QuoteUsed(TonneError, kind=Kind.CONFLICT, code="quote_used"):
    message = "An order was already placed with this quote. Request a new one with POST /v1/quotes."


class QuoteMismatch(TonneError, kind=Kind.CONFLICT, code="quote_mismatch"):
    message = "The order differs from the quote. Send what was quoted, or request a new quote."
