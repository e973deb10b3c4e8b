"""GET /v1/account: for whom a key acts."""

from typing import Annotated

import msgspec

from tonne.accounts import store
from tonne.accounts.model import Account
from tonne.base.clock import to_wire
from tonne.db.pool import Database
from tonne.http.errors import AccountNotFound
from tonne.http.route import Access, Request, Response, Route, json_response


class AccountOut(msgspec.Struct):
    id: str
    organisation_id: str
    account_type: Annotated[str, msgspec.Meta(extra_json_schema={"enum": ["live", "test"]})]
    kind: Annotated[str, msgspec.Meta(extra_json_schema={"enum": ["account", "client_account"]})]
    name: str
    currency: str
    beneficiary: str
    payment_method: Annotated[str, msgspec.Meta(extra_json_schema={"enum": ["invoice", "card"]})]
    auto_advance: Annotated[
        bool,
        msgspec.Meta(
            description="Whether orders go on by themselves; in test mode they may wait for the test helpers."
        ),
    ]
    created_at: Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]


class AccountEndpoints:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def read_account(self, request: Request) -> Response:
        """Returns the account that the API key, or the account header, selects."""
        async with self._database.connection() as connection:
            account = await store.find_account(connection, request.scope)
        if account is None:
            raise AccountNotFound
        return json_response(_account_out(account))

    def routes(self) -> list[Route]:
        return [
            Route(
                method="GET",
                path="/v1/account",
                endpoint=self.read_account,
                access=Access.API_KEY,
                summary="Read the account that the key acts for",
                tag="Account",
                answers={200: AccountOut},
            )
        ]


def _account_out(account: Account) -> AccountOut:
    return AccountOut(
        id=account.scope.account_id,
        organisation_id=account.scope.organisation_id,
        account_type=account.scope.mode,
        kind=account.kind,
        name=account.name,
        currency=account.currency,
        beneficiary=account.beneficiary,
        auto_advance=account.auto_advance,
        payment_method=account.payment_method,
        created_at=to_wire(account.created_at),
    )
