from tonne.platform.values.errors import Kind, TonneError


class RefundNotAllowed(TonneError, kind=Kind.FORBIDDEN, code="refund_not_allowed"):
    """The account may not refund by API: a paid order is cancelled with `refund`, or refunds are made or listed.

    Ask the seller to refund the order, or to allow it with `tonne account update --refunds-by-api`.
    """

    message = (
        "Refunds by API are off for this account. Ask the seller to refund the order, or to switch them on with "
        "`tonne account update --refunds-by-api`."
    )


class RefundExceedsPaid(TonneError, kind=Kind.CONFLICT, code="refund_exceeds_paid"):
    """The refund is more than what can still be refunded of the order.

    Refund at most the amount in the message.
    """

    message = "The refund exceeds what can still be refunded of the order."


class RefundAmountInvalid(TonneError, kind=Kind.INVALID, code="refund_amount_invalid"):
    """The amount of a refund is zero, or has more decimals than the currency, or than cards support.

    Send an amount such as `5.00`.
    """

    message = "The amount of a refund must be greater than zero, with at most the decimals of the order's currency."


class NothingToRefund(TonneError, kind=Kind.CONFLICT, code="nothing_to_refund"):
    """Nothing was paid for the order, all of it was refunded, or the payer disputes the payment.

    Read the order and its refunds.
    """

    message = "Nothing was paid for this order, or all of it was refunded. Read its refunds."


class TaxDecisionInvalid(TonneError, kind=Kind.CONFLICT, code="tax_decision_invalid"):
    """In the dashboard: an operator decides about the tax of a dispute that was not lost after delivery, or about which
    somebody has decided.

    Open the dispute again.
    """

    message = "There is nothing to decide about the tax of this dispute, or no longer."


class RefundNotFound(TonneError, kind=Kind.NOT_FOUND, code="refund_not_found"):
    """On the command line: there is no such refund.

    See `tonne refund list`.
    """

    message = "There is no such refund. Run `tonne refund list` to see all refunds."


class RefundNotWaiting(TonneError, kind=Kind.CONFLICT, code="refund_not_waiting"):
    """On the command line: a refund is approved or declined that needs no approval, or one is repeated that is over.

    Run `tonne refund show`.

    The state of the refund does not allow the command.
    """

    message = "The refund does not wait for this. Run `tonne refund show` to see its state."


class RefundNotSettleable(TonneError, kind=Kind.CONFLICT, code="refund_not_settleable"):
    """On the command line: a refund is settled by hand while the gateway or the bank may still make it.

    Follow the message: ask the gateway with `tonne refund retry`, or record the return.

    The gateway or the bank may still make the refund.
    """

    message = "The refund may still be made, so it cannot be settled by hand. Run `tonne refund show` to see its state."


class RefundOwed(TonneError, kind=Kind.CONFLICT, code="refund_owed"):
    """On the command line: a refund of a cancelled order is declined.

    Approve it: the payment of a cancelled order goes back.
    """

    message = "The order is cancelled, so its payment goes back: the refund cannot be declined. Approve it."


class DisputeNotFound(TonneError, kind=Kind.NOT_FOUND, code="dispute_not_found"):
    """On the command line: there is no such dispute.

    See `tonne dispute list`.
    """

    message = "There is no such dispute. Run `tonne dispute list` to see all disputes."


class NothingToDispute(TonneError, kind=Kind.CONFLICT, code="nothing_to_dispute"):
    """A test helper disputes an order without a card payment, or whose dispute is closed.

    Use an order that was paid by card.
    """

    message = "The order has no captured charge that can be disputed, or its dispute is closed already."


class ChargeNotMismatched(TonneError, kind=Kind.CONFLICT, code="charge_not_mismatched"):
    """On the command line: a charge is refunded or accepted whose amount is not mismatched, or that cannot pay for its
    order.

    Use `tonne order refund` for a payment with the right amount.
    """

    message = "There is no such charge with a mismatched amount. To send back what an order paid: `tonne order refund`."
