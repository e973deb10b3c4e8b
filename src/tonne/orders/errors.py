from tonne.base.errors import Kind, TonneError


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
