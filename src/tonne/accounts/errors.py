from tonne.base.errors import Kind, TonneError


class OrganisationNotFound(TonneError):
    kind = Kind.NOT_FOUND
    code = "organisation_not_found"
    message = "There is no such organisation: `tonne org list` shows them all."


class KeyNotFound(TonneError):
    kind = Kind.NOT_FOUND
    code = "api_key_not_found"
    message = "There is no such API key: `tonne key list` shows them all."


class CurrencyUnknown(TonneError):
    kind = Kind.INVALID
    code = "currency_unknown"
    message = "That is not a currency code of ISO 4217, such as EUR."


class NameInvalid(TonneError):
    kind = Kind.INVALID
    code = "name_invalid"
    message = "A name needs 1 to 200 characters."


class FeeRateInvalid(TonneError):
    kind = Kind.INVALID
    code = "fee_rate_invalid"
    message = "The fee rate must be from 0 to below 1, with at most 5 decimals: 0.10 is ten per cent."


class RedirectHostInvalid(TonneError):
    kind = Kind.INVALID
    code = "redirect_host_invalid"
    message = "Give a host such as shop.example.com or shop.example.com:8443, without https:// and without a path."
