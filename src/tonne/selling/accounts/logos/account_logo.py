"""The logo of an account: uploading and removing it, and its public address."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.platform.db.database import Connection, Database
from tonne.platform.events.audit import record as audit
from tonne.platform.http.errors import FormInvalid
from tonne.platform.http.limits.turns import in_turn
from tonne.platform.http.route import Access, Request, Response, Route, RouteMaker, json_response
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import By, Clock, Scope, is_id
from tonne.platform.web.caching import IMAGE_POLICY, ONE_YEAR
from tonne.selling.accounts.account_schemas import logo_path
from tonne.selling.accounts.errors import AccountLogoNotFound, LogoInvalid, UnsupportedImageFormat
from tonne.selling.accounts.logos.logo import logo_of
from tonne.selling.accounts.logos.store import Logo, find_logo_any_account, set_logo
from tonne.selling.accounts.lookup import require_account
from tonne.selling.accounts.model import AccountKind
from tonne.selling.accounts.organisations.manage_endpoints import require_managed
from tonne.selling.accounts.store import lock_account


async def change_logo(tx: Connection, scope: Scope, logo: Logo | None, *, by: By) -> str | None:
    """Returns the version of the new logo, which is part of its address; None without a logo."""
    await lock_account(tx, scope)
    before = await require_account(tx, scope)
    await set_logo(tx, scope, logo)
    after = await require_account(tx, scope)
    await audit.record(
        tx,
        scope,
        "account.logo_changed",
        by=by,
        before={"logo": before.logo_version},
        after={"logo": after.logo_version},
    )
    return after.logo_version


_FIELD = "logo"
_URL = "https://offsets.example.com/logo/acc_06dq2k8v7p3h5n9s4t1w0x2y6z/5f2b8c01d9e3"


class LogoUrlOut(msgspec.Struct):
    url: Annotated[
        str, Meta(description="Address of the new logo.", examples=[_URL], extra_json_schema={"format": "uri"})
    ]


class RemovedOut(msgspec.Struct):
    """An empty object."""


class AccountLogoEndpoints:
    def __init__(self, database: Database, *, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._clock = clock
        self._base_url = settings.base_url

    async def upload_logo(self, request: Request) -> Response:
        """Upload the logo of an account.

        PNG, JPEG or WebP, at most 96 KiB, 4096 pixels a side and 4 million in all, in the field `logo` of a form. It
        replaces the logo on the account's Sustainability page and checkout pages, and is on certificates that are
        issued from now on.
        """
        return await self._upload(request, AccountKind.ACCOUNT)

    async def upload_client_logo(self, request: Request) -> Response:
        """Upload the logo of a client account.

        PNG, JPEG or WebP, at most 96 KiB, 4096 pixels a side and 4 million in all, in the field `logo` of a form. It
        replaces the logo on the account's Sustainability page and checkout pages, and is on certificates that are
        issued from now on.
        """
        return await self._upload(request, AccountKind.CLIENT_ACCOUNT)

    async def remove_logo(self, request: Request) -> Response:
        """Remove the logo of an account.

        Also from its Sustainability page and checkout pages. Certificates that were issued before keep it.
        """
        return await self._remove(request, AccountKind.ACCOUNT)

    async def remove_client_logo(self, request: Request) -> Response:
        """Remove the logo of a client account.

        Also from its Sustainability page and checkout pages. Certificates that were issued before keep it.
        """
        return await self._remove(request, AccountKind.CLIENT_ACCOUNT)

    async def show_logo(self, request: Request) -> Response:
        """The logo of an account."""
        account_id, version = request.path("account_id"), request.path("version")
        logo = None
        if is_id("acc", account_id):
            logo = await self._database.run(find_logo_any_account, account_id, version)
        if logo is None:
            raise AccountLogoNotFound
        return Response(logo.content, media_type=logo.media_type.encode(), headers={**ONE_YEAR, **IMAGE_POLICY})

    async def _upload(self, request: Request, kind: AccountKind) -> Response:
        async with self._database.connection() as connection:
            # Before the file: other clients must not learn from its errors that the account exists.
            scope = await require_managed(connection, request, _account_id(request, kind), kind)
        logo = await in_turn(_read, request)
        version = await self._database.commit(change_logo, scope, logo, by=request.actor.at(self._clock()))
        return json_response(LogoUrlOut(f"{self._base_url}{logo_path(scope.account_id, version or '')}"))

    async def _remove(self, request: Request, kind: AccountKind) -> Response:
        async with self._database.transaction() as tx:
            scope = await require_managed(tx, request, _account_id(request, kind), kind)
            await change_logo(tx, scope, None, by=request.actor.at(self._clock()))
        return json_response(RemovedOut())


def _account_id(request: Request, kind: AccountKind) -> str:
    return request.path("client_account_id" if kind is AccountKind.CLIENT_ACCOUNT else "account_id")


def _read(request: Request) -> Logo:
    try:
        return logo_of(request.upload(_FIELD).content)
    except LogoInvalid as error:
        raise UnsupportedImageFormat(str(error), field=_FIELD) from error


def account_logo_routes(endpoints: AccountLogoEndpoints) -> list[Route]:
    route, errors = RouteMaker("Accounts"), (UnsupportedImageFormat, FormInvalid)
    own, client = "/v1/accounts/{account_id}/logo", "/v1/accounts/client/{client_account_id}/logo"
    return [
        route(
            f"POST {own}",
            endpoints.upload_logo,
            LogoUrlOut,
            *errors,
            operation_id="uploadAccountLogo",
            file_field=_FIELD,
        ),
        route(f"DELETE {own}", endpoints.remove_logo, RemovedOut, operation_id="removeAccountLogo"),
        route(
            f"POST {client}",
            endpoints.upload_client_logo,
            LogoUrlOut,
            *errors,
            operation_id="uploadClientAccountLogo",
            file_field=_FIELD,
        ),
        route(f"DELETE {client}", endpoints.remove_client_logo, RemovedOut, operation_id="removeClientAccountLogo"),
    ]


def public_logo_routes(endpoints: AccountLogoEndpoints) -> list[Route]:
    """Not in the OpenAPI document: pages and responses show the address."""
    route = RouteMaker("Pages", Access.PUBLIC)
    return [route("GET /logo/{account_id}/{version}", endpoints.show_logo, None, AccountLogoNotFound)]
