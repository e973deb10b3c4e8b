"""Endpoints of accounts and client accounts."""

from datetime import datetime
from typing import TypeVar

from msgspec import Struct

from tonne.platform.db.database import Connection, Database
from tonne.platform.http.errors import AccountNotFound, KeyAccountNotAllowed
from tonne.platform.http.json_body import Document, read
from tonne.platform.http.lists import Paging, list_response
from tonne.platform.http.route import Request, Response, json_response
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Mode, Scope, is_id, new_id, replace
from tonne.platform.values.errors import Fault, Invalid
from tonne.platform.values.language import DEFAULT_LANGUAGE
from tonne.platform.values.paging import Position
from tonne.selling.accounts import errors, store
from tonne.selling.accounts.account_schemas import (
    AccountIn,
    AccountPairOut,
    AccountPatchIn,
    AccountPutIn,
    ClientAccountIn,
    ClientAccountPatchIn,
    ClientAccountPutIn,
    client_account_out,
    listed_client_account_out,
    own_account_out,
)
from tonne.selling.accounts.change_account import AccountChange, archive_account, change_account, open_account
from tonne.selling.accounts.directory import AccountDirectory, AccountFilter, list_accounts_before
from tonne.selling.accounts.errors import AccountScopeIncorrect
from tonne.selling.accounts.keys import store as key_store
from tonne.selling.accounts.lookup import require_account
from tonne.selling.accounts.model import Account, AccountKind, PagesVisibility, PaymentMethod
from tonne.selling.accounts.organisations.activity import AccountActivity, ActivityReaders, find_activity
from tonne.selling.accounts.organisations.change_organisation import check_name


async def require_manager(connection: Connection, request: Request) -> None:
    """Raises AccountScopeIncorrect for keys of client accounts, and for requests that act for one."""
    acting = await store.find_account(connection, request.scope)
    is_own = acting is not None and acting.kind is AccountKind.ACCOUNT
    if not is_own or not await _is_own_key(connection, request):
        raise AccountScopeIncorrect


async def require_creator(connection: Connection, request: Request) -> None:
    await require_manager(connection, request)
    if request.accounts is not None:
        raise KeyAccountNotAllowed(
            "This API key is restricted to some accounts, so it cannot create others. Use a key for all accounts."
        )


async def require_managed(connection: Connection, request: Request, account_id: str, kind: AccountKind) -> Scope:
    """The scope of the account that the path names.

    An account of another organisation, mode or kind is not found, and for keys of client accounts none is.
    """
    scope = replace(request.scope, account_id=account_id)
    account: Account | None = None
    if is_id("acc", account_id) and await _is_own_key(connection, request):
        account = await store.find_account(connection, scope)
    if account is None or account.kind is not kind:
        raise AccountNotFound
    if request.accounts is not None and account_id not in request.accounts:
        raise KeyAccountNotAllowed
    return scope


async def _is_own_key(connection: Connection, request: Request) -> bool:
    scope = request.scope
    kind = await key_store.find_key_kind(connection, scope.organisation_id, request.actor.name)
    return kind is AccountKind.ACCOUNT


_CLIENT = AccountKind.CLIENT_ACCOUNT
_CARD = "The billing of this account does not allow payment by card. Ask the operator to change it."
T = TypeVar("T", bound=AccountPutIn | ClientAccountPutIn)


class ManageAccountEndpoints(Struct, frozen=True):
    database: Database
    directory: AccountDirectory
    activity: ActivityReaders
    clock: Clock
    settings: Settings

    async def read_own_account(self, request: Request) -> Response:
        """Read the acting account.

        Returns the account that the API key, or the account header, selects. It must not be a client account.
        """
        account = await self._acting(request, AccountKind.ACCOUNT)
        return json_response(own_account_out(account, self.settings.base_url, request.scope.mode))

    async def read_own_client_account(self, request: Request) -> Response:
        """Read the acting client account.

        Returns the client account that the API key, or the account header, selects.
        """
        return json_response(client_account_out(await self._acting(request, _CLIENT), self.settings.base_url))

    async def create_account(self, request: Request) -> Response:
        """Create an account in both modes.

        Creates a live and a test account with the same name and settings, and returns both. Needs a live key that is
        not restricted to some accounts. The currency cannot be changed later.
        """
        body = read(request.json(), AccountIn)
        scope, now = request.scope, self.clock()
        if scope.mode is not Mode.LIVE:
            raise errors.LiveAccountRequired
        ids = {mode: new_id("acc") for mode in Mode}
        siblings = {Mode.LIVE: ids[Mode.TEST], Mode.TEST: ids[Mode.LIVE]}
        accounts = {}
        async with self.database.transaction() as tx:
            await require_creator(tx, request)
            # In the order of the enum: two requests lock the modes in the same order.
            for mode in Mode:
                account = _new_account(body, Scope(scope.organisation_id, ids[mode], mode), now)
                paired = replace(account, sibling_id=siblings[mode])
                accounts[mode] = await open_account(tx, paired, actor=request.actor)
        return json_response(self._pair(accounts[Mode.LIVE], accounts[Mode.TEST]), 201)

    async def read_account_pair(self, request: Request) -> Response:
        """What `create_account` has created, for a repeat of the request."""
        live = await self._managed(request, AccountKind.ACCOUNT)
        test = Scope(live.scope.organisation_id, live.sibling_id or "", Mode.TEST)
        return json_response(self._pair(live, await self.database.run(require_account, test)))

    def _pair(self, live: Account, test: Account) -> AccountPairOut:
        live_out, test_out = (own_account_out(each, self.settings.base_url, Mode.LIVE) for each in (live, test))
        return AccountPairOut(live_out, test_out)

    async def list_accounts(self, request: Request) -> Response:
        """List accounts, newest first.

        Returns the accounts of the organisation in the mode of the key, without client accounts. A key that is
        restricted to some accounts sees only those.
        """
        found, cursor, _ = await self._list(request, AccountKind.ACCOUNT)
        return list_response(
            [own_account_out(each, self.settings.base_url, request.scope.mode) for each in found], cursor
        )

    async def read_account(self, request: Request) -> Response:
        """Read an account by its id.

        Returns an account of the organisation in the mode of the key. Client accounts have a path of their own.
        """
        account = await self._managed(request, AccountKind.ACCOUNT)
        return json_response(own_account_out(account, self.settings.base_url, request.scope.mode))

    async def replace_account(self, request: Request) -> Response:
        """Change an account.

        Changes name, beneficiary, handle, visibility of public pages and language. Orders that were placed before keep
        the old values. Fields that are left out keep their value.
        """
        return await self._change_own(request, AccountPutIn)

    async def update_account(self, request: Request) -> Response:
        """Change single fields of an account.

        Fields that are left out keep their value; null removes the beneficiary and the handle.
        """
        return await self._change_own(request, AccountPatchIn)

    async def create_client_account(self, request: Request) -> Response:
        """Create a client account.

        Creates an account for a customer of the organisation, in the mode of the key. A repeated request with the same
        `idempotency_key` and name returns the client account as it is now. The currency cannot be changed later.
        """
        account, is_new = await self.open_client_account(request, read(request.json(), ClientAccountIn))
        response = json_response(client_account_out(account, self.settings.base_url), 201 if is_new else 200)
        if not is_new:
            response.headers["Idempotent-Replayed"] = "true"
        return response

    async def open_client_account(self, request: Request, body: ClientAccountIn) -> tuple[Account, bool]:
        """The client account, and whether it is new: not if there is one with the same key."""
        account = _new_account(body, replace(request.scope, account_id=new_id("acc")), self.clock())
        account = replace(
            account,
            kind=_CLIENT,
            payment_method=body.payment_method or PaymentMethod.INVOICE,
            idempotency_key=body.idempotency_key,
            reference=body.reference,
        )
        async with self.database.transaction() as tx:
            await require_creator(tx, request)
            if (original := await _find_original(tx, account)) is not None:
                return original, False
            return await open_account(tx, account, actor=request.actor), True

    async def list_client_accounts(self, request: Request) -> Response:
        """List client accounts, newest first.

        Returns the client accounts of the organisation in the mode of the key, with what they have estimated. A key
        that is restricted to some accounts sees only those.
        """
        found, cursor, activity = await self._list(request, _CLIENT)
        listed = [
            listed_client_account_out(
                each,
                self.settings.base_url,
                last_active=(seen := activity.get(each.scope.account_id, AccountActivity())).last_active,
                estimates=seen.estimates,
                emission_grams=seen.emission_grams,
            )
            for each in found
        ]
        return list_response(listed, cursor)

    async def read_client_account(self, request: Request) -> Response:
        """Read a client account by its id.

        Returns a client account of the organisation in the mode of the key, also if it is archived.
        """
        return json_response(client_account_out(await self._managed(request, _CLIENT), self.settings.base_url))

    async def replace_client_account(self, request: Request) -> Response:
        """Change a client account.

        Changes name, beneficiary, handle, visibility of public pages, language, payment method, reference and
        idempotency key. Orders that were placed before keep the old values. Fields that are left out keep their value.
        """
        return await self._change_client(request, ClientAccountPutIn)

    async def update_client_account(self, request: Request) -> Response:
        """Change single fields of a client account.

        Fields that are left out keep their value; null removes the beneficiary, handle, idempotency key and reference.
        """
        return await self._change_client(request, ClientAccountPatchIn)

    async def archive_client_account(self, request: Request) -> Response:
        """Archive a client account.

        Nothing new can be ordered for an archived account (`account_suspended`), by API or at checkout. Its orders,
        certificates and pages stay, and open orders finish. Repeating the request changes nothing.
        """
        return await self._archive(request, archived=True)

    async def unarchive_client_account(self, request: Request) -> Response:
        """End the archiving of a client account.

        The account takes orders again. Repeating the request changes nothing.
        """
        return await self._archive(request, archived=False)

    async def _acting(self, request: Request, kind: AccountKind) -> Account:
        account = await self.database.run(require_account, request.scope)
        if account.kind is not kind:
            path = "/v1/accounts/client/me" if account.kind is _CLIENT else "/v1/accounts/me"
            raise errors.AccountScopeIncorrect(
                f"The request acts for an account with the scope {account.kind}. Use {path}."
            )
        return account

    async def _managed(self, request: Request, kind: AccountKind) -> Account:
        async with self.database.connection() as connection:
            scope = await require_managed(connection, request, _account_id(request, kind), kind)
            return await require_account(connection, scope)

    async def _list(
        self, request: Request, kind: AccountKind
    ) -> tuple[list[Account], str | None, dict[str, AccountActivity]]:
        (name,) = request.query("name")
        archived = _read_archived(request) if kind is _CLIENT else None
        requested = AccountFilter(kind, (name or "").strip(), archived, request.accounts)
        scope = request.scope
        paging = Paging.of(request, f"accounts {scope.organisation_id} {scope.mode} {kind} {requested.name} {archived}")
        async with self.database.connection() as connection:
            await require_manager(connection, request)
            found = await list_accounts_before(connection, scope, requested, paging.start, paging.fetch)
            page, cursor = paging.cut(found, lambda each: Position(each.created_at, each.scope.account_id))
            ids = [each.scope.account_id for each in page] if kind is _CLIENT else []
            activity = await find_activity(connection, self.activity, scope, ids) if ids else {}
        return list(page), cursor, activity

    async def _change_own(self, request: Request, shape: type[AccountPutIn]) -> Response:
        account = await self._change(request, AccountKind.ACCOUNT, shape)
        return json_response(own_account_out(account, self.settings.base_url, request.scope.mode))

    async def _change_client(self, request: Request, shape: type[ClientAccountPutIn]) -> Response:
        return json_response(client_account_out(await self._change(request, _CLIENT, shape), self.settings.base_url))

    async def _change(self, request: Request, kind: AccountKind, shape: type[T]) -> Account:
        async with self.database.transaction() as tx:
            # Before the body: other clients must not learn from its errors that the account exists.
            scope = await require_managed(tx, request, _account_id(request, kind), kind)
            document = request.json()
            change = _change_of(document, read(document, shape))
            try:
                account = await change_account(tx, scope, change, by=request.actor.at(self.clock()))
            except errors.BillingInvalid as error:
                raise errors.BillingInvalid(_CARD, field="payment_method") from error
        self.directory.forget_terms(scope)
        return account

    async def _archive(self, request: Request, *, archived: bool) -> Response:
        async with self.database.transaction() as tx:
            scope = await require_managed(tx, request, _account_id(request, _CLIENT), _CLIENT)
            account = await archive_account(tx, scope, archived=archived, by=request.actor.at(self.clock()))
        self.directory.forget_terms(scope)
        return json_response(client_account_out(account, self.settings.base_url))


def _account_id(request: Request, kind: AccountKind) -> str:
    return request.path("client_account_id" if kind is _CLIENT else "account_id")


def _new_account(body: AccountIn | ClientAccountIn, scope: Scope, now: datetime) -> Account:
    name = check_name(body.name)
    return Account(
        scope=scope,
        kind=AccountKind.ACCOUNT,
        name=name,
        currency=body.currency,
        beneficiary=name if body.beneficiary is None else check_name(body.beneficiary),
        payment_method=PaymentMethod.INVOICE,
        created_at=now,
        language=body.language or DEFAULT_LANGUAGE,
        has_own_beneficiary=body.beneficiary is not None,
        handle=body.handle,
        external_pages_visibility=body.external_pages_visibility or PagesVisibility.PUBLIC,
    )


async def _find_original(tx: Connection, account: Account) -> Account | None:
    """The client account that was created with the same key. Raises AccountIdempotencyExists if its name differs."""
    if account.idempotency_key is None:
        return None
    # Of two requests with the same key, the second waits here until the first commits.
    await store.lock_organisation_mode(tx, account.scope)
    original = await store.find_by_idempotency_key(tx, account.scope, account.idempotency_key)
    if original is not None and original.name != account.name:
        raise errors.AccountIdempotencyExists(field="idempotency_key")
    return original


def _change_of(document: Document, body: AccountPutIn | ClientAccountPutIn) -> AccountChange:
    """Null removes what is optional: the change has an empty text then."""

    def text(name: str, value: str | None) -> str | None:
        return "" if name in document.members and value is None else value

    # Only in a PATCH it may be missing.
    name: str | None = body.name
    removes = "beneficiary" in document.members and body.beneficiary is None
    change = AccountChange(
        name=None if name is None else check_name(name),
        beneficiary=None if body.beneficiary is None else check_name(body.beneficiary),
        removes_beneficiary=removes,
        language=body.language,
        external_pages_visibility=body.external_pages_visibility,
        handle=text("handle", body.handle),
    )
    if isinstance(body, AccountPutIn):
        return change
    return replace(
        change,
        payment_method=body.payment_method,
        idempotency_key=text("idempotency_key", body.new_key),
        reference=text("reference", body.reference),
    )


def _read_archived(request: Request) -> bool | None:
    (text,) = request.query("archived")
    if text not in {None, "true", "false"}:
        raise Invalid([Fault("validation_error", "archived must be true or false.", "archived")])
    return None if text is None else text == "true"
