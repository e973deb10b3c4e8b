from tonne.platform.values.errors import Kind, TonneError


class TransactionFactorNotFound(TonneError, kind=Kind.INVALID, code="transaction_factor_not_found"):
    message = (
        "No emission factors for transactions were imported, so this cannot be calculated. The operator of this "
        "service can import a set; docs/estimates.md describes its file."
    )


class ExchangeRateNotFound(TonneError, kind=Kind.INVALID, code="exchange_rate_not_found"):
    message = "There is no exchange rate for this currency. Convert the value, and send it in another currency."
