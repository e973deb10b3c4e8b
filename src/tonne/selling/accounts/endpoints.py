"""Endpoints for the account that an API key uses, and for the audit log: what keys and the operator changed."""

import re
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.platform.db.database import Connection, Database
from tonne.platform.events.audit import store as audit_store
from tonne.platform.events.audit.store import AuditFilter, StoredEntry
from tonne.platform.http.lists import LIST_ERRORS, LIST_PARAMETERS, ListOut, Paging, list_response
from tonne.platform.http.openapi.components import JsonValues
from tonne.platform.http.route import Parameter, Request, Response, Route, RouteMaker, json_response
from tonne.platform.values.context import Actor, ActorKind, Mode, Timestamp, same_named, to_wire
from tonne.platform.values.errors import Fault, Invalid
from tonne.selling.accounts.errors import AuditLogNotAvailable
from tonne.selling.accounts.keys import store as key_store
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


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_KEY_ID = "key_06dq2k8v7p3h5n9s4t1w0x2y6z"
_TIMESTAMP = {"type": "string", "format": "date-time"}

FILTERS = (
    Parameter("subject_id", "Only changes of the object with this id.", {"type": "string"}),
    Parameter(
        "action",
        "Only actions that begin with this text, such as `webhook.` or `invoice.settled`.",
        {"type": "string"},
    ),
    Parameter("key_id", "Only changes made with this API key.", {"type": "string"}),
    Parameter("since", "Only changes at this time or later.", _TIMESTAMP),
    Parameter("until", "Only changes before this time.", _TIMESTAMP),
)


class AuditActorType(StrEnum):
    OPERATOR = "operator"
    API_KEY = "api_key"
    SYSTEM = "system"
    PAYER = "payer"
    USER = "user"


_TYPES = {
    ActorKind.KEY: AuditActorType.API_KEY,
    ActorKind.SYSTEM: AuditActorType.SYSTEM,
    ActorKind.PAYER: AuditActorType.PAYER,
    ActorKind.USER: AuditActorType.USER,
}


class AuditActorOut(msgspec.Struct):
    type: Annotated[
        AuditActorType,
        Meta(
            description="An API key of the organisation, a member who used the dashboard, an operator of this service, "
            "an automatic job, or a customer who paid through an offset link.",
            examples=["api_key"],
        ),
    ]
    id: Annotated[
        str | None,
        Meta(
            description="Id of the API key, the user or the offset link, or name of the job. Null for operators.",
            examples=[_KEY_ID],
        ),
    ]
    address: Annotated[
        str | None,
        Meta(description="Network address of the API client or the user. Null for others.", examples=["203.0.113.9"]),
    ]


class AuditEntryOut(msgspec.Struct):
    id: Annotated[str, Meta(description="Id of the entry.", examples=["aud_06gtv67pjgdsg50qjnffgu5fio"])]
    created_at: Annotated[Timestamp, Meta(description="When the change was made.")]
    account_type: Annotated[
        Mode | None,
        Meta(
            description="Mode of the changed object. Null if the change concerns both modes.",
            examples=["test"],
        ),
    ]
    actor: Annotated[AuditActorOut, Meta(description="Who made the change.")]
    action: Annotated[
        str, Meta(description="What was done. New actions may be added.", examples=["offset_link.changed"])
    ]
    subject_id: Annotated[
        str, Meta(description="Id of the changed object.", examples=["lnk_06dq2k8v7p3h5n9s4t1w0x2y6z"])
    ]
    before: Annotated[
        JsonValues | None,
        Meta(description="The changed values before the change. Null for a new object.", examples=[{"enabled": True}]),
    ]
    after: Annotated[
        JsonValues | None,
        Meta(
            description="The changed values after the change. Null for a deleted object.",
            examples=[{"enabled": False}],
        ),
    ]
    details: Annotated[
        JsonValues, Meta(description="More about the change; the members depend on the action.", examples=[{}])
    ]


# Which of the actors are users who run this service. Users belong to a later package.
FindOperators = Callable[[Connection, Iterable[Actor]], Awaitable[frozenset[str]]]


class AuditEndpoints:
    def __init__(self, database: Database, find_operators: FindOperators) -> None:
        self._database = database
        self._find_operators = find_operators

    async def list_audit_log(self, request: Request) -> Response:
        """List changes, newest first.

        Returns the audit log of the organisation: who changed accounts, API keys, webhooks, offset links, pages, cards,
        invoices and orders, when, from which address, and the values before and after.

        A live key reads the entries of live mode and those that concern both modes, a test key only those of test mode.
        Keys of client accounts cannot read the audit log.
        """
        scope, requested = request.scope, _filter(request)
        paging = Paging.of(request, f"audit log {scope.organisation_id} {scope.mode} {requested}")
        async with self._database.connection() as connection:
            kind = await key_store.find_key_kind(connection, scope.organisation_id, request.actor.name)
            if kind is not AccountKind.ACCOUNT:
                raise AuditLogNotAvailable
            found = await audit_store.list_entries(connection, scope, requested, paging.start, paging.fetch)
            operators = await self._find_operators(connection, [entry.actor for entry in found])
        page, cursor = paging.cut(found)
        return list_response([_entry_out(entry, operators) for entry in page], cursor)


def audit_routes(endpoints: AuditEndpoints) -> list[Route]:
    return [
        RouteMaker("Audit log")(
            "GET /v1/audit-log",
            endpoints.list_audit_log,
            ListOut[AuditEntryOut],
            *LIST_ERRORS,
            AuditLogNotAvailable,
            operation_id="listAuditLog",
            query=(*LIST_PARAMETERS, *FILTERS),
        )
    ]


def _filter(request: Request) -> AuditFilter:
    subject_id, action, key_id, since, until = request.query(*(parameter.name for parameter in FILTERS))
    return AuditFilter(
        subject_id=subject_id,
        action=action,
        actor=None if key_id is None else str(Actor(ActorKind.KEY, key_id)),
        since=_parse_time(since, "since"),
        until=_parse_time(until, "until"),
    )


def _parse_time(text: str | None, name: str) -> datetime | None:
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text).astimezone(UTC) if _TIME.fullmatch(text) else None
    except (ValueError, OverflowError):
        time = None
    if time is None:
        message = f"{name} is not a timestamp: send one such as 2026-11-15T10:00:00Z."
        raise Invalid([Fault("validation_error", message, name)])
    return time


def _entry_out(entry: StoredEntry, operators: frozenset[str]) -> AuditEntryOut:
    return same_named(
        AuditEntryOut,
        entry,
        created_at=to_wire(entry.created_at),
        account_type=entry.mode,
        actor=_actor_out(entry.actor, operators),
    )


def _actor_out(actor: Actor, operators: frozenset[str]) -> AuditActorOut:
    """Organisations do not see the names, hosts and addresses of the operators."""
    if actor.kind is ActorKind.CLI or (actor.kind is ActorKind.USER and actor.name in operators):
        return AuditActorOut(AuditActorType.OPERATOR, None, None)
    return AuditActorOut(_TYPES[actor.kind], actor.name, actor.address)
