"""Why a charge failed, in the stable codes of an order's `failure_reason`, and in words for payers."""

from collections.abc import Mapping

from tonne.platform.values.language import N_
from tonne.selling.orders.model import FailureReason

# By the gateway's code. All other codes are `card_declined`: a bank does not want payers to learn that a card is
# reported as stolen.
_REASONS: Mapping[str, FailureReason] = {
    "insufficient_funds": FailureReason.INSUFFICIENT_FUNDS,
    "withdrawal_count_limit_exceeded": FailureReason.INSUFFICIENT_FUNDS,
    "expired_card": FailureReason.EXPIRED_CARD,
    "invalid_expiry_month": FailureReason.EXPIRED_CARD,
    "invalid_expiry_year": FailureReason.EXPIRED_CARD,
    "no_card": FailureReason.CARD_MISSING,
    "amount_too_small": FailureReason.AMOUNT_NOT_CHARGEABLE,
    "amount_too_large": FailureReason.AMOUNT_NOT_CHARGEABLE,
    "amount_not_chargeable": FailureReason.AMOUNT_NOT_CHARGEABLE,
    "authentication_required": FailureReason.AUTHENTICATION_REQUIRED,
    "authentication_not_handled": FailureReason.AUTHENTICATION_REQUIRED,
    "payment_intent_authentication_failure": FailureReason.AUTHENTICATION_REQUIRED,
}
_WORDS: Mapping[FailureReason, str] = {
    FailureReason.CARD_DECLINED: N_("The bank declined the card."),
    FailureReason.INSUFFICIENT_FUNDS: N_("The card has insufficient funds."),
    FailureReason.EXPIRED_CARD: N_("The card has expired."),
    FailureReason.CARD_MISSING: N_("No card is stored."),
    FailureReason.AMOUNT_NOT_CHARGEABLE: N_("The amount cannot be charged to a card."),
    FailureReason.AUTHENTICATION_REQUIRED: N_("The payment was not confirmed in time."),
}


def failure_reason_of(code: str | None) -> FailureReason:
    return _REASONS.get(code or "", FailureReason.CARD_DECLINED)


def explain_decline(code: str | None) -> str:
    """A sentence for the payer, in English: it is translated where it is shown."""
    return _WORDS[failure_reason_of(code)]
