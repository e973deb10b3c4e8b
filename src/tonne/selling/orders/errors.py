from tonne.platform.values.errors import Kind, TonneError
from tonne.platform.values.language import N_


class OrderNotFound(TonneError, kind=Kind.NOT_FOUND, code="order_not_found"):
    """There is no such order in this account and mode; an order of another account gets the same response.

    Check the id or key, the account, and the mode of the API key.

    Also for an order of another account, organisation or mode: the responses are identical.
    """

    message = "There is no such order."


class TransitionInvalid(TonneError, kind=Kind.CONFLICT, code="order_transition_invalid"):
    """The order cannot make this move from its current status, or has just made another.

    Read the order again.
    """

    message = "The status of the order does not allow this."


class OrderFulfilled(TonneError, kind=Kind.CONFLICT, code="order_fulfilled"):
    """An order is to be cancelled with a refund, reduced or released, but it is fulfilled, or about to be.

    Read the order again. Its credits are allocated: only a goodwill refund remains.
    """

    message = "The order is fulfilled, or about to be: it can no longer be cancelled, reduced or released."


class FulfilAfterInvalid(TonneError, kind=Kind.INVALID, code="fulfil_after_invalid"):
    """An order may be fulfilled more than 90 days from now at the earliest.

    Send an earlier time in `fulfil_after`, or `manual`.
    """

    message = 'The time in fulfil_after is more than 90 days ahead. Send an earlier one, or "manual".'


class ReductionInvalid(TonneError, kind=Kind.INVALID, code="reduction_invalid"):
    """An order is to be reduced to a quantity that is not below its own, or not above zero.

    Send the new total in tonnes. To take everything off, cancel the order.
    """

    message = "The new quantity must be above zero, and below that of the order. To take everything off, cancel it."


class EstimateUnknown(TonneError, kind=Kind.INVALID, code="estimate_not_found"):
    """In the body of an order. GET on an unknown estimate returns 404 with the same code."""

    message = "There is no such estimate. Create one with POST /v1/estimates."


class SpendingLimitReached(TonneError, kind=Kind.FORBIDDEN, code="spending_limit_reached"):
    """With this order, the account or the API key would exceed its limit for the calendar month (UTC); the message
    says what the limit is, what is spent and when it resets.

    Order less, wait for the next month, or ask the operator for a higher limit. A repeated `idempotency_key` still
    returns its order.
    """

    message = "The monthly limit is reached. It resets at the beginning of the next month (UTC)."


class LimitAmountInvalid(TonneError, kind=Kind.INVALID, code="limit_amount_invalid"):
    """On the command line: a spending limit or a minimum order is not an amount in the account's currency.

    Give an amount such as `1000.00`, or `none`.
    """

    message = "This is not an amount. Give one such as 1000.00, or none."


class OfferChanged(TonneError, kind=Kind.CONFLICT, code="price_changed"):
    """The price, the quantity, the fee, a bundle or its projects changed before the payment, or before the order in
    the dashboard; nothing was charged or ordered.

    Check the new offer on the page, then pay or order.

    Also for another quantity, fee, line or project at the same price.
    """

    message = N_("The offer has changed since you opened this page. Nothing was charged. Please check the new offer.")


class SupplyInsufficient(TonneError, kind=Kind.CONFLICT, code="insufficient_available_quantity"):
    """An order has `reject_if_short`, or a quote has `hold_supply`, and supply does not cover it now.

    Ask for less or for other bundles, or omit the field: the order then waits for supply.

    Only for orders with `reject_if_short` and quotes with `hold_supply`; others wait for supply.
    """

    message = "Supply does not cover this order now. Order less or other bundles, or omit reject_if_short and wait."


class NotEnoughInStock(TonneError, kind=Kind.CONFLICT, code="not_enough_in_stock"):
    """When the customer pays, there is less than they want: it was sold meanwhile.

    Choose a smaller amount or another bundle; nothing was charged.
    """

    message = N_("Not enough of %(names)s. Nothing was charged. Choose a smaller amount or another option.")


class QuoteNotFound(TonneError, kind=Kind.NOT_FOUND, code="quote_not_found"):
    """The quote does not exist in this account and mode, or expired more than 30 days ago: 400 when an order refers to
    it, 404 when it is read.

    Request one with `POST /v1/quotes`, or check the key's account and mode.

    Also for a quote of another account, organisation or mode.
    """

    message = "There is no such quote. Request one with POST /v1/quotes."


class QuoteUnknown(TonneError, kind=Kind.INVALID, code="quote_not_found"):
    """In the body of an order. GET on an unknown quote returns 404 with the same code."""

    message = "There is no such quote. Request one with POST /v1/quotes."


class QuoteExpired(TonneError, kind=Kind.CONFLICT, code="quote_expired"):
    """An order has the `quote_id` of a quote that expired, or whose account has another currency or way of paying
    since.

    Request a new quote with `POST /v1/quotes`.
    """

    message = "The quote has expired. Request a new one with POST /v1/quotes."


class QuoteUsed(TonneError, kind=Kind.CONFLICT, code="quote_used"):
    """Another order was placed with this quote.

    Request a new quote. To repeat a request safely, send the same `idempotency_key`.
    """

    message = "An order was already placed with this quote. Request a new one with POST /v1/quotes."


class QuoteMismatch(TonneError, kind=Kind.CONFLICT, code="quote_mismatch"):
    """An order differs from its quote; `field` says in what.

    Send the amount that was quoted, and the same bundles or none; or request a new quote.
    """

    message = "The order differs from the quote. Send what was quoted, or request a new quote."
