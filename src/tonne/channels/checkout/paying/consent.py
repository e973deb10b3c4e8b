"""The right of withdrawal: the notice that a consumer sees before ordering, and the recorded consent.

Credits are retired soon after the payment, and that cannot be undone. A consumer therefore agrees that performance
begins before the withdrawal period ends, and loses the right once the credits are retired.
"""

import hashlib
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from tonne.platform.settings.settings import Settings
from tonne.platform.settings.withdrawal_texts import WithdrawalWording, read_withdrawal_texts
from tonne.platform.values.language import N_
from tonne.platform.web.translate import Translator

# Fields of the payment form.
CONSENT_FIELD, VERSION_FIELD, BUSINESS_FIELD = "withdrawal_consent", "consent_version", "is_business"
_NOTICE = N_(
    "As a consumer, you can withdraw from this contract within 14 days without giving a reason. Your credits are "
    "retired soon after the payment, and a retirement can't be undone. Once they are retired, you can no longer "
    "withdraw."
)
_CONSENT = N_(
    "I ask %(seller)s to retire the credits before the withdrawal period ends. I know that I lose my right of "
    "withdrawal once they are retired."
)


class BuyerKind(StrEnum):
    CONSUMER = "consumer"
    BUSINESS = "business"


class WithdrawalText(Struct, frozen=True):
    """What the page shows in one language."""

    language: str
    notice: str
    consent: str

    @property
    def text(self) -> str:
        return f"{self.notice}\n\n{self.consent}"

    @property
    def version(self) -> str:
        """Another wording or language has another version."""
        return hashlib.sha256(f"{self.language}\n{self.text}".encode()).hexdigest()[:16]


class Consent(Struct, frozen=True):
    """As whom the customer ordered. A business has no right of withdrawal, so `version` is None."""

    buyer: BuyerKind
    version: str | None
    language: str
    at: datetime

    def is_same(self, other: "Consent | None") -> bool:
        """Whether it says the same as an earlier one, whose time then counts."""
        return other is not None and (self.buyer, self.version) == (other.buyer, other.version)


class WithdrawalTexts:
    """The operator's wording where there is one, else the catalogues'."""

    def __init__(self, settings: Settings) -> None:
        self._is_asked = settings.withdrawal_consent
        self._seller = settings.seller_name
        self._own: dict[str, WithdrawalWording] = read_withdrawal_texts(settings.withdrawal_texts)

    def text_in(self, _: Translator) -> WithdrawalText | None:
        """None if the operator does not ask for the consent."""
        if not self._is_asked:
            return None
        own = self._own.get(_.language)
        if own is not None:
            return WithdrawalText(_.language, own.notice.strip(), own.consent.strip())
        return WithdrawalText(_.language, _(_NOTICE), _(_CONSENT, seller=self._seller))
