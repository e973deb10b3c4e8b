from tonne.platform.values.errors import Kind, TonneError


class OrganisationNotFound(TonneError, kind=Kind.NOT_FOUND, code="organisation_not_found"):
    """On the command line: there is no such organisation.

    See `tonne org list`.
    """

    message = "There is no such organisation. Run `tonne org list` to see all organisations."


class HistoryImportNotFound(TonneError, kind=Kind.NOT_FOUND, code="history_import_not_found"):
    """On the command line: there is no such import of earlier orders, or it was undone.

    See `tonne history list`.
    """

    message = "There is no such import. Run `tonne history list` to see all imports."


class KeyNotFound(TonneError, kind=Kind.NOT_FOUND, code="api_key_not_found"):
    """There is no such API key in this organisation and mode.

    See `GET /v1/api-keys` or `tonne key list`.
    """

    message = "There is no such API key. Run `tonne key list` to see the keys of an organisation."


class KeyRightInvalid(TonneError, kind=Kind.INVALID, code="key_right_invalid"):
    """An API key gets `persons` or `api_keys`, but belongs to a client account, or gets `persons` in test mode.

    Use a key of one of the organisation's own accounts; for `persons` a live one.
    """

    message = "Only a live key of an organisation's own account can have this right. Name a live account."


class KeyRestrictionInvalid(TonneError, kind=Kind.INVALID, code="key_restriction_invalid"):
    """An API key is created with an unknown permission, account or network, with an expiry in the past, or with a
    permission for the whole organisation and a list of accounts.

    Correct the field that the message names.
    """

    message = "A restriction of the API key is not valid."


class KeyRightsExceeded(TonneError, kind=Kind.FORBIDDEN, code="key_rights_exceeded"):
    """A key creates, rotates or revokes a key that has, or would have, more rights than itself; the message says which.

    Restrict the new key further, or use a key with more rights.
    """

    message = "The other key has more rights than the key of this request. Use a key with more rights."


class KeyEnded(TonneError, kind=Kind.CONFLICT, code="api_key_ended"):
    """A key is rotated that is revoked, expired or rotated already.

    Rotate the key that replaced it, or create a new one.
    """

    message = "The API key is revoked, expired or rotated already. Create a new one."


class KeyLimitReached(TonneError, kind=Kind.CONFLICT, code="api_key_limit_reached"):
    """The organisation has 200 working keys in this mode.

    Revoke keys that are not used any more.
    """

    message = "The organisation has 200 keys in this mode. Revoke keys that are not used any more."


class AdminNotFound(TonneError, kind=Kind.NOT_FOUND, code="admin_not_found"):
    """On the command line: the organisation has no admin with this e-mail address.

    Run `tonne org show`.
    """

    message = "The organisation has no such admin. Run `tonne org show` to see its admins."


class TestMailAddressNotFound(TonneError, kind=Kind.NOT_FOUND, code="test_mail_address_not_found"):
    """On the command line: the organisation does not allow test mail to this address.

    Run `tonne org show`.
    """

    message = "The organisation does not allow test mail to this address. Run `tonne org show` to see its addresses."


class RedirectHostNotFound(TonneError, kind=Kind.NOT_FOUND, code="redirect_host_not_found"):
    """On the command line: the organisation has no such redirect host.

    Run `tonne org show`.
    """

    message = "The organisation has no such redirect host. Run `tonne org show` to see its redirect hosts."


class AccountAlreadyClosed(TonneError, kind=Kind.CONFLICT, code="account_already_closed"):
    """On the command line: a closed account is closed.

    Nothing: it is closed.
    """

    message = "The account is already closed."


class AccountNotClosed(TonneError, kind=Kind.CONFLICT, code="account_not_closed"):
    """On the command line: an account is reopened that is not closed.

    If its organisation is closed, run `tonne org reopen`.
    """

    message = "The account is not closed. If its organisation is, run `tonne org reopen`."


class OrganisationAlreadyClosed(TonneError, kind=Kind.CONFLICT, code="organisation_already_closed"):
    """On the command line: a closed organisation is closed.

    Nothing: it is closed.
    """

    message = "The organisation is already closed."


class OrganisationNotClosed(TonneError, kind=Kind.CONFLICT, code="organisation_not_closed"):
    """On the command line: an organisation is reopened that is not closed.

    Run `tonne account reopen` for an account that is.
    """

    message = "The organisation is not closed. Run `tonne account reopen` for an account that is."


class AccountSuspended(TonneError, kind=Kind.FORBIDDEN, code="account_suspended"):
    """Something is ordered for a client account that is [archived](accounts.md).

    Order for another account, or end the archiving with `POST /v1/accounts/client/{id}/unarchive`.
    """

    message = (
        "This client account is archived, so nothing can be ordered. Order for another account, or end the archiving "
        "with `POST /v1/accounts/client/{id}/unarchive`."
    )


class AccountScopeIncorrect(TonneError, kind=Kind.FORBIDDEN, code="account_scope_incorrect"):
    """Accounts are managed with a key of a client account, or acting for one; or `/v1/accounts/me` is read for a
    client account, or `/v1/accounts/client/me` for another account.

    Use a key of one of the organisation's own accounts, or the other path.
    """

    message = "This request is for one of the organisation's own accounts. Use a key of one, and act for it."


class LiveAccountRequired(TonneError, kind=Kind.FORBIDDEN, code="live_account_required"):
    """An account is created with a test key.

    Use a live key: it creates the account in both modes.
    """

    message = "Accounts are created in both modes at once, with a live API key. Use one."


class HandleNotUnique(TonneError, kind=Kind.CONFLICT, code="handle_not_unique"):
    """Another account of the organisation and mode has the handle.

    Choose another one.
    """

    message = "Another account of the organisation has this handle in this mode. Choose another one."


class AccountIdempotencyExists(TonneError, kind=Kind.CONFLICT, code="account_idempotency_already_exists"):
    """A client account is created with the `idempotency_key` of one with another name, or gets the key of another one.

    Use a new key for a new account.
    """

    message = "Another client account has this idempotency_key. Send a new key for a new account."


class CurrencyUnknown(TonneError, kind=Kind.INVALID, code="currency_unknown"):
    """The currency of a new account is not an ISO 4217 code.

    Use one such as `EUR`.
    """

    message = "The currency is unknown. Use an ISO 4217 code such as EUR."


class NameInvalid(TonneError, kind=Kind.INVALID, code="name_invalid"):
    """A name is empty, longer than 200 characters, or contains line breaks or control characters.

    Give 1 to 200 printable characters.
    """

    message = "A name must have 1 to 200 printable characters."


class AddressTooLong(TonneError, kind=Kind.INVALID, code="address_too_long"):
    """On the command line: an organisation's address has more than 1,000 characters.

    Shorten it.
    """

    message = "An address has at most 1000 characters. Shorten it."


class MailAddressInvalid(TonneError, kind=Kind.INVALID, code="mail_address_invalid"):
    """On the command line: an address for receipts or card mails is not an e-mail address.

    Give one such as `billing@example.com`, or an empty text to remove it.
    """

    message = "This is not an e-mail address. Give one such as billing@example.com, or an empty text to remove it."


class FulfilDelayInvalid(TonneError, kind=Kind.INVALID, code="fulfil_delay_invalid"):
    """On the command line or in the dashboard: the wait until fulfilment is neither hours from 0 to 2160 nor `manual`.

    Give a whole number of hours, 0 for none, or `manual`.
    """

    message = 'Give a whole number of hours from 0 to 2160, or "manual".'


class FeeRateInvalid(TonneError, kind=Kind.INVALID, code="fee_rate_invalid"):
    """On the command line: the fee rate is not between 0 and 1 (excluded) with at most 5 decimals.

    Give `0.10` for ten per cent.
    """

    message = "The fee rate must be at least 0 and below 1, with at most 5 decimals. For ten per cent, use 0.10."


class LiveAccountCannotWait(TonneError, kind=Kind.INVALID, code="live_account_cannot_wait"):
    """On the command line: `--wait` is used with a live account.

    Use a test account.
    """

    message = "This account is live. Only test accounts can wait for the test helpers."


class BillingInvalid(TonneError, kind=Kind.INVALID, code="billing_invalid"):
    """An account is to pay by card, but its billing does not allow that; on the command line, the billing settings of
    an account do not fit together, such as a threshold without `--billing threshold`, credit without a limit, or
    credit for an account that pays by card.

    Follow the message.
    """

    message = "The billing settings of the account do not fit together."


class RedirectHostInvalid(TonneError, kind=Kind.INVALID, code="redirect_host_invalid"):
    """On the command line: a redirect host is not a plain host name, with or without a port.

    Give `shop.example.com`, without `https://` and without a path.
    """

    message = "Give a host such as shop.example.com or shop.example.com:8443, without https:// and without a path."


class AuditLogNotAvailable(TonneError, kind=Kind.NOT_FOUND, code="audit_log_not_available"):
    """The API key belongs to a client account.

    Use a key of one of the organisation's accounts.
    """

    message = "API keys of client accounts cannot read the audit log. Use a key of one of the organisation's accounts."


class TaxProfileNotAvailable(TonneError, kind=Kind.NOT_FOUND, code="tax_profile_not_available"):
    """The API key belongs to a client account.

    Use a key of one of the organisation's accounts.
    """

    message = (
        "API keys of client accounts cannot read the tax profile. Use a key of one of the organisation's accounts."
    )


class TaxProfileInvalid(TonneError, kind=Kind.INVALID, code="tax_profile_invalid"):
    """On the command line: a tax profile has an unknown country, an invalid tax id, a wrong rate, or lacks what its
    treatment needs.

    Correct it as the message says, see [tax](tax.md).
    """

    message = "The tax profile is not valid. Run `tonne org tax --help` to see what it consists of."


class LogoInvalid(TonneError, kind=Kind.INVALID, code="logo_invalid"):
    """The logo is not base64, not a complete PNG, JPEG or WebP image of at most 96 KiB, 4096 pixels a side and
    4 million in all, or does not match its `media_type`; SVG is not supported.

    Send the unmodified image file in base64.
    """

    message = "The logo must be a complete PNG, JPEG or WebP image of at most 96 KiB and 4 million pixels."


class UnsupportedImageFormat(TonneError, kind=Kind.INVALID, code="unsupported_image_format"):
    """The logo of an account is not a complete PNG, JPEG or WebP image of at most 96 KiB, 4096 pixels a side and
    4 million in all; SVG is not supported.

    Send the unmodified image file in the field `logo` of a form.
    """

    message = "The logo must be a complete PNG, JPEG or WebP image of at most 96 KiB and 4 million pixels."


class AccountLogoNotFound(TonneError, kind=Kind.NOT_FOUND, code="account_logo_not_found"):
    """The account has another logo now, or none.

    Use the `logo` of the account unchanged.
    """

    message = "There is no such logo. The account has another one now, or none."
