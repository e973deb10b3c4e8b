from tonne.base.errors import Kind, TonneError


class OrderNotFound(TonneError, kind=Kind.NOT_FOUND, code="order_not_found"):
    """Also for an order of another account, organisation or mode: the answers are identical."""

    message = "There is no such order."


class TransitionInvalid(TonneError, kind=Kind.CONFLICT, code="order_transition_invalid"):
    message = "The order cannot make that move from its present status."


class EstimateUnknown(TonneError, kind=Kind.INVALID, code="estimate_not_found"):
    """In the body of an order; reading an unknown estimate by its address is a 404 with the same code."""

    message = "There is no such estimate: POST /v1/estimates records one."
