"""The forms that change who may do what, or where money goes: a stolen old session must not be enough for them.

They ask for a sign-in of the last 30 minutes, approvals for one of the last 5 minutes, tell the person by mail, and
some end the other sessions, the personal tokens and the links for a new password.
`tests/apps/dashboard/test_security_forms.py` fails for a form that is neither here nor known there as harmless.
"""

from collections.abc import Collection, Mapping

from tonne.platform.values.language import N_

_YOU = "/dashboard/you"
_ACCESS = N_(
    "API keys, webhooks, members or roles of your organisation were changed with your sign-in to the dashboard."
)
_OPERATOR = N_("Access, limits, bank details or an approval were changed with your sign-in to the operator area.")
# By path, relative to the organisation or the operator area: what the mail says. None: the use case sends its own.
SECURITY_FORMS: Mapping[str, str | None] = {
    f"{_YOU}/password": None,
    # Shows the secret of the app. What follows is mailed.
    f"{_YOU}/second-factor": None,
    f"{_YOU}/second-factor/enable": N_("An authenticator app was added to your sign-in to the dashboard."),
    f"{_YOU}/second-factor/codes": N_(
        "New recovery codes were made for your sign-in to the dashboard. The old ones no longer work."
    ),
    f"{_YOU}/second-factor/disable": N_("The authenticator app was removed from your sign-in to the dashboard."),
    f"{_YOU}/passkeys": None,
    f"{_YOU}/passkeys/{{passkey_id}}/remove": None,
    f"{_YOU}/tokens": N_("A personal token for the command line was made with your sign-in to the dashboard."),
    f"{_YOU}/tokens/{{token_id}}/revoke": N_("A personal token for the command line was revoked."),
    "/keys": _ACCESS,
    "/keys/{key_id}/rotate": _ACCESS,
    "/keys/{key_id}/revoke": _ACCESS,
    "/webhooks": _ACCESS,
    "/webhooks/{webhook_id}": _ACCESS,
    "/webhooks/{webhook_id}/rotate": _ACCESS,
    "/people": _ACCESS,
    "/people/{user_id}/role": _ACCESS,
    "/people/{user_id}/remove": _ACCESS,
    "/accounts/{account_id}/links/{offset_link_id}/secret": _ACCESS,
    "/customers/{organisation_id}/accounts/{account_id}": _OPERATOR,
    "/customers/{organisation_id}/act-as": _OPERATOR,
    "/customers/{organisation_id}/admins": _OPERATOR,
    "/customers/{organisation_id}/admins/remove": _OPERATOR,
    "/customers/{organisation_id}/keys/{key_id}": _OPERATOR,
    "/persons/erase": N_("The data of a person was erased with your sign-in to the operator area."),
    "/money/invoices/{number}/approve-write-off": _OPERATOR,
    "/money/refunds/{refund_id}/approve": _OPERATOR,
    "/money/returns/{return_id}/approve": _OPERATOR,
    "/month-end/{month}/approve": _OPERATOR,
    "/books/settings/{name}/approve": _OPERATOR,
    "/registries/requests/{request_id}/approve": _OPERATOR,
    "/money/returns/{return_id}/redirect": _OPERATOR,
    "/money/transfers/{transfer_id}/return": _OPERATOR,
}
APPROVAL_FORMS = frozenset(
    {
        "/money/invoices/{number}/approve-write-off",
        "/money/refunds/{refund_id}/approve",
        "/money/returns/{return_id}/approve",
        "/month-end/{month}/approve",
        "/books/settings/{name}/approve",
        "/registries/requests/{request_id}/approve",
    }
)
# They also end all other sessions and the links for a new password. Changing the password does so by itself.
ENDING_FORMS = frozenset(
    {
        f"{_YOU}/second-factor/enable",
        f"{_YOU}/second-factor/codes",
        f"{_YOU}/second-factor/disable",
        f"{_YOU}/passkeys/{{passkey_id}}/remove",
    }
)


def page_of(location: str, path: str, pages: Collection[str]) -> str:
    """The page from which a form was sent: the nearest one above it, or the first one of its section."""
    names, sent = path.split("/")[1:], location.partition("?")[0].split("/")
    base, values = "/".join(sent[: -len(names)]), sent[-len(names) :]
    for length in range(len(names), 0, -1):
        if f"/{'/'.join(names[:length])}" in pages:
            return f"{base}/{'/'.join(values[:length])}"
    return base + next(iter(pages))
