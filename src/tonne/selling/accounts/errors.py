from tonne.platform.values.errors import Kind, TonneError


class OrganisationNotFound(TonneError, kind=Kind.NOT_FOUND, code="organisation_not_found"):
    message = "There is no such organisation. Run `tonne org list` to see all organisations."


class KeyNotFound(TonneError, kind=Kind.NOT_FOUND, code="api_key_not_found"):
    message = "There is no such API key. Run `tonne key list` to see the keys of an organisation."


class KeyRightInvalid(TonneError, kind=Kind.INVALID, code="key_right_invalid"):
    """Command line only."""

    message = "Only a live key of an organisation's own account can have this right. Name a live account."


class KeyRestrictionInvalid(TonneError, kind=Kind.INVALID, code="key_restriction_invalid"):
    message = "A restriction of the API key is not valid."


class KeyRightsExceeded(TonneError, kind=Kind.FORBIDDEN, code="key_rights_exceeded"):
    message = "The new key would have more rights than the key that creates it. Restrict it further."


class KeyEnded(TonneError, kind=Kind.CONFLICT, code="api_key_ended"):
    message = "The API key is revoked, expired or rotated already. Create a new one."


class KeyLimitReached(TonneError, kind=Kind.CONFLICT, code="api_key_limit_reached"):
    message = "The organisation has 200 keys in this mode. Revoke keys that are not used any more."


class AdminNotFound(TonneError, kind=Kind.NOT_FOUND, code="admin_not_found"):
    message = "The organisation has no such admin. Run `tonne org show` to see its admins."


class TestMailAddressNotFound(TonneError, kind=Kind.NOT_FOUND, code="test_mail_address_not_found"):
    message = "The organisation does not allow test mail to this address. Run `tonne org show` to see its addresses."


class RedirectHostNotFound(TonneError, kind=Kind.NOT_FOUND, code="redirect_host_not_found"):
    message = "The organisation has no such redirect host. Run `tonne org show` to see its redirect hosts."


class AccountAlreadyClosed(TonneError, kind=Kind.CONFLICT, code="account_already_closed"):
    message = "The account is already closed."


class AccountNotClosed(TonneError, kind=Kind.CONFLICT, code="account_not_closed"):
    message = "The account is not closed. If its organisation is, run `tonne org reopen`."


class OrganisationAlreadyClosed(TonneError, kind=Kind.CONFLICT, code="organisation_already_closed"):
    message = "The organisation is already closed."


class OrganisationNotClosed(TonneError, kind=Kind.CONFLICT, code="organisation_not_closed"):
    message = "The organisation is not closed. Run `tonne account reopen` for an account that is."


class AccountSuspended(TonneError, kind=Kind.FORBIDDEN, code="account_suspended"):
    message = (
        "This client account is archived, so nothing can be ordered. Order for another account, or end the archiving "
        "with `POST /v1/accounts/client/{id}/unarchive`."
    )


class AccountScopeIncorrect(TonneError, kind=Kind.FORBIDDEN, code="account_scope_incorrect"):
    message = "This request is for one of the organisation's own accounts. Use a key of one, and act for it."


class LiveAccountRequired(TonneError, kind=Kind.FORBIDDEN, code="live_account_required"):
    message = "Accounts are created in both modes at once, with a live API key. Use one."


class HandleNotUnique(TonneError, kind=Kind.CONFLICT, code="handle_not_unique"):
    message = "Another account of the organisation has this handle in this mode. Choose another one."


class AccountIdempotencyExists(TonneError, kind=Kind.CONFLICT, code="account_idempotency_already_exists"):
    message = "Another client account has this idempotency_key. Send a new key for a new account."


class CurrencyUnknown(TonneError, kind=Kind.INVALID, code="currency_unknown"):
    message = "The currency is unknown. Use an ISO 4217 code such as EUR."


class NameInvalid(TonneError, kind=Kind.INVALID, code="name_invalid"):
    message = "A name must have 1 to 200 printable characters."


class AddressTooLong(TonneError, kind=Kind.INVALID, code="address_too_long"):
    message = "An address has at most 1000 characters. Shorten it."


class MailAddressInvalid(TonneError, kind=Kind.INVALID, code="mail_address_invalid"):
    """Command line only."""

    message = "This is not an e-mail address. Give one such as billing@example.com, or an empty text to remove it."


class FeeRateInvalid(TonneError, kind=Kind.INVALID, code="fee_rate_invalid"):
    message = "The fee rate must be at least 0 and below 1, with at most 5 decimals. For ten per cent, use 0.10."


class LiveAccountCannotWait(TonneError, kind=Kind.INVALID, code="live_account_cannot_wait"):
    message = "This account is live. Only test accounts can wait for the test helpers."


class BillingInvalid(TonneError, kind=Kind.INVALID, code="billing_invalid"):
    message = "The billing settings of the account do not fit together."


class RedirectHostInvalid(TonneError, kind=Kind.INVALID, code="redirect_host_invalid"):
    message = "Give a host such as shop.example.com or shop.example.com:8443, without https:// and without a path."


class AuditLogNotAvailable(TonneError, kind=Kind.NOT_FOUND, code="audit_log_not_available"):
    message = "API keys of client accounts cannot read the audit log. Use a key of one of the organisation's accounts."


class TaxProfileNotAvailable(TonneError, kind=Kind.NOT_FOUND, code="tax_profile_not_available"):
    message = (
        "API keys of client accounts cannot read the tax profile. Use a key of one of the organisation's accounts."
    )


class TaxProfileInvalid(TonneError, kind=Kind.INVALID, code="tax_profile_invalid"):
    message = "The tax profile is not valid. Run `tonne org tax --help` to see what it consists of."
