"""Endpoint for the account that an API key uses."""

from typing import Annotated

import msgspec

from tonne.platform.db.database import Database
from tonne.platform.http.route import Request, Response, Route, RouteMaker, json_response
from tonne.platform.values.context import Mode, Timestamp, same_named, to_wire
from tonne.selling.accounts.lookup import require_account
from tonne.selling.accounts.model import Account, AccountKind, PaymentMethod


class AccountOut(msgspec.Struct):
    id: Annotated[str, msgspec.Meta(description="Id of the account.", examples=["acc_06dq2k8v7p3h5n9s4t1w0x2y6z"])]
    organisation_id: Annotated[
        str, msgspec.Meta(description="The account's organisation.", examples=["org_06dq2k8v7p3h5n9s4t1w0x2y6z"])
    ]
    account_type: Annotated[Mode, msgspec.Meta(description="Mode of the account.", examples=["live"])]
    kind: Annotated[
        AccountKind,
        msgspec.Meta(
            description="A client account belongs to a customer of the organisation.",
            examples=["account"],
        ),
    ]
    name: Annotated[str, msgspec.Meta(description="Name of the account.", examples=["Main account"])]
    currency: Annotated[str, msgspec.Meta(description="Currency of its orders.", examples=["EUR"])]
    beneficiary: Annotated[str, msgspec.Meta(description="The name credits are retired for.", examples=["Acme Ltd"])]
    payment_method: Annotated[
        PaymentMethod, msgspec.Meta(description="How the account pays for its orders.", examples=["invoice"])
    ]
    auto_advance: Annotated[
        bool,
        msgspec.Meta(description="Whether orders advance automatically. False: they wait for the test helpers."),
    ]
    language: Annotated[
        str,
        msgspec.Meta(
            description="Language of mails, PDFs and pages, unless a customer chose another.",
            examples=["en"],
        ),
    ]
    created_at: Annotated[Timestamp, msgspec.Meta(description="When the account was created.")]


class AccountEndpoints:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def read_account(self, request: Request) -> Response:
        """Read the account.

        Returns the account that the API key, or the account header, selects.
        """
        return json_response(_account_out(await self._database.run(require_account, request.scope)))


def account_routes(endpoints: AccountEndpoints) -> list[Route]:
    route = RouteMaker("Account")
    return [route("GET /v1/account", endpoints.read_account, AccountOut, operation_id="getAccount")]


def _account_out(account: Account) -> AccountOut:
    return same_named(
        AccountOut,
        account,
        id=account.scope.account_id,
        organisation_id=account.scope.organisation_id,
        account_type=account.scope.mode,
        created_at=to_wire(account.created_at),
    )
