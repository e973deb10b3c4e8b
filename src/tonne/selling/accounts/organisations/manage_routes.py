"""Routes of accounts and client accounts."""

from tonne.platform.http.lists import LIST_ERRORS, LIST_PARAMETERS, ListOut
from tonne.platform.http.route import Creation, Parameter, Route, RouteMaker
from tonne.selling.accounts import account_schemas, errors
from tonne.selling.accounts.organisations.manage_endpoints import ManageAccountEndpoints

_CHANGED = (errors.NameInvalid, errors.HandleNotUnique, errors.AccountIdempotencyExists)
_NAME = Parameter("name", "Only accounts whose name contains this text.", {"type": "string"})
_ARCHIVED = Parameter(
    "archived",
    "Only client accounts that are archived, or that are not.",
    {"type": "string", "enum": ["true", "false"]},
)
_PROFILE = {"name": "Fjord Bakery", "handle": "fjord-bakery", "external_pages_visibility": "public"}


def manage_account_routes(endpoints: ManageAccountEndpoints) -> list[Route]:
    return [*_own_routes(endpoints), *_client_routes(endpoints), *_one_client_routes(endpoints)]


def _own_routes(endpoints: ManageAccountEndpoints) -> list[Route]:
    route, one = RouteMaker("Accounts"), "/v1/accounts/{account_id}"
    changed = (errors.NameInvalid, errors.HandleNotUnique)
    return [
        route(
            "GET /v1/accounts/me",
            endpoints.read_own_account,
            account_schemas.OwnAccountOut,
            errors.AccountScopeIncorrect,
            operation_id="getOwnAccount",
        ),
        route(
            "POST /v1/accounts",
            endpoints.create_account,
            {201: account_schemas.AccountPairOut},
            errors.AccountScopeIncorrect,
            errors.LiveAccountRequired,
            errors.CurrencyUnknown,
            *changed,
            operation_id="createAccount",
            body=account_schemas.AccountIn,
            example={**_PROFILE, "currency": "EUR"},
            creates=Creation(
                read=endpoints.read_account_pair,
                parameter="account_id",
                id_of=lambda pair: str(pair["live"]["id"]),
                of_organisation=True,
            ),
        ),
        route(
            "GET /v1/accounts",
            endpoints.list_accounts,
            ListOut[account_schemas.OwnAccountOut],
            *LIST_ERRORS,
            errors.AccountScopeIncorrect,
            operation_id="listAccounts",
            query=(*LIST_PARAMETERS, _NAME),
        ),
        route(f"GET {one}", endpoints.read_account, account_schemas.OwnAccountOut, operation_id="getAccountById"),
        route(
            f"PUT {one}",
            endpoints.replace_account,
            account_schemas.OwnAccountOut,
            *changed,
            operation_id="replaceAccount",
            body=account_schemas.AccountPutIn,
            example=_PROFILE,
        ),
        route(
            f"PATCH {one}",
            endpoints.update_account,
            account_schemas.OwnAccountOut,
            *changed,
            operation_id="updateAccount",
            body=account_schemas.AccountPatchIn,
            example={"beneficiary": None, "language": "de"},
        ),
    ]


def _client_routes(endpoints: ManageAccountEndpoints) -> list[Route]:
    route, own = RouteMaker("Accounts"), {"scope": "client_account"}
    created = {200: account_schemas.ClientAccountOut, 201: account_schemas.ClientAccountOut}
    return [
        route(
            "GET /v1/accounts/client/me",
            endpoints.read_own_client_account,
            account_schemas.ClientAccountOut,
            errors.AccountScopeIncorrect,
            operation_id="getOwnClientAccount",
            shows=own,
        ),
        route(
            "POST /v1/accounts/client",
            endpoints.create_client_account,
            created,
            errors.AccountScopeIncorrect,
            errors.CurrencyUnknown,
            *_CHANGED,
            operation_id="createClientAccount",
            body=account_schemas.ClientAccountIn,
            example={**_PROFILE, "currency": "EUR", "idempotency_key": "client-20817", "reference": "Customer 20817"},
            shows=own,
        ),
        route(
            "GET /v1/accounts/client",
            endpoints.list_client_accounts,
            ListOut[account_schemas.ListedClientAccountOut],
            *LIST_ERRORS,
            errors.AccountScopeIncorrect,
            operation_id="listClientAccounts",
            query=(*LIST_PARAMETERS, _NAME, _ARCHIVED),
        ),
    ]


def _one_client_routes(endpoints: ManageAccountEndpoints) -> list[Route]:
    route, one = RouteMaker("Accounts"), "/v1/accounts/client/{client_account_id}"
    own = {"scope": "client_account"}
    return [
        route(
            f"GET {one}",
            endpoints.read_client_account,
            account_schemas.ClientAccountOut,
            operation_id="getClientAccount",
            shows=own,
        ),
        route(
            f"PUT {one}",
            endpoints.replace_client_account,
            account_schemas.ClientAccountOut,
            *_CHANGED,
            errors.BillingInvalid,
            operation_id="replaceClientAccount",
            body=account_schemas.ClientAccountPutIn,
            example=_PROFILE,
            shows=own,
        ),
        route(
            f"PATCH {one}",
            endpoints.update_client_account,
            account_schemas.ClientAccountOut,
            *_CHANGED,
            errors.BillingInvalid,
            operation_id="updateClientAccount",
            body=account_schemas.ClientAccountPatchIn,
            example={"reference": "Customer 20817", "beneficiary": None},
            shows=own,
        ),
        route(
            f"POST {one}/archive",
            endpoints.archive_client_account,
            account_schemas.ClientAccountOut,
            operation_id="archiveClientAccount",
            shows={**own, "archived_at": "2026-11-15T10:00:00.123Z"},
        ),
        route(
            f"POST {one}/unarchive",
            endpoints.unarchive_client_account,
            account_schemas.ClientAccountOut,
            operation_id="unarchiveClientAccount",
            shows=own,
        ),
    ]
