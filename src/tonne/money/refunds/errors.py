from tonne.platform.values.errors import Kind, TonneError


class RefundNotAllowed(TonneError, kind=Kind.FORBIDDEN, code="refund_not_allowed"):
    message = (
        "Refunds by API are off for this account. Ask the seller to refund the order, or to switch them on with "
        "`tonne account update --refunds-by-api`."
    )


class RefundExceedsPaid(TonneError, kind=Kind.CONFLICT, code="refund_exceeds_paid"):
    message = "The refund exceeds what can still be refunded of the order."


class RefundAmountInvalid(TonneError, kind=Kind.INVALID, code="refund_amount_invalid"):
    message = "The amount of a refund must be greater than zero, with at most the decimals of the order's currency."


class NothingToRefund(TonneError, kind=Kind.CONFLICT, code="nothing_to_refund"):
    message = "Nothing was paid for this order, or all of it was refunded. Read its refunds."


class RefundNotFound(TonneError, kind=Kind.NOT_FOUND, code="refund_not_found"):
    message = "There is no such refund. Run `tonne refund list` to see all refunds."


class RefundNotWaiting(TonneError, kind=Kind.CONFLICT, code="refund_not_waiting"):
    """Command line only: the state of the refund does not allow the command."""

    message = "The refund does not wait for this. Run `tonne refund show` to see its state."


class RefundNotSettleable(TonneError, kind=Kind.CONFLICT, code="refund_not_settleable"):
    """Command line only: the gateway or the bank may still make the refund."""

    message = "The refund may still be made, so it cannot be settled by hand. Run `tonne refund show` to see its state."


class RefundOwed(TonneError, kind=Kind.CONFLICT, code="refund_owed"):
    """Command line only."""

    message = "The order is cancelled, so its payment goes back: the refund cannot be declined. Approve it."


class DisputeNotFound(TonneError, kind=Kind.NOT_FOUND, code="dispute_not_found"):
    message = "There is no such dispute. Run `tonne dispute list` to see all disputes."


class NothingToDispute(TonneError, kind=Kind.CONFLICT, code="nothing_to_dispute"):
    message = "The order has no captured charge that can be disputed, or its dispute is closed already."


class ChargeNotMismatched(TonneError, kind=Kind.CONFLICT, code="charge_not_mismatched"):
    """Command line only."""

    message = "There is no such charge with a mismatched amount. To send back what an order paid: `tonne order refund`."
