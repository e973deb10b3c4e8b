"""The peer: a small FastAPI service with SQLAlchemy that places, reads and lists orders like Tonne.

It is what a good team writes and tunes, and the comparison of `python -m bench peer`. Change it only to make it
faster or more correct.
"""

import base64
import hashlib
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated

import orjson
from fastapi import APIRouter, FastAPI, HTTPException, Query, Request, Response
from pydantic import ValidationError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from bench.peer.catalogue import Account, Catalogue
from bench.peer.orders import BundleUnknown, EstimateUnknown, NewOrder, list_orders, place_order, read_by_key
from bench.peer.schemas import OrderByEstimateIn, OrderList, OrderOut

MAX_METADATA_BYTES = 16 * 1024
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOMENT = struct.Struct(">q")


def driver_url(url: str) -> str:
    return url.replace("postgresql://", "postgresql+asyncpg://", 1)


def create_engine(url: str) -> AsyncEngine:
    return create_async_engine(
        driver_url(url),
        # Every request has single statements only: no BEGIN and no ROLLBACK, also not when a connection is released.
        isolation_level="AUTOCOMMIT",
        pool_reset_on_return=None,
        pool_size=16,
        max_overflow=0,
        pool_use_lifo=True,
        json_deserializer=orjson.loads,
        connect_args={"server_settings": {"application_name": "peer", "jit": "off"}},
    )


def json_response(content: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(content, status, headers, "application/json")


router = APIRouter()


async def authenticate(request: Request) -> Account:
    """Called by the endpoints: a dependency of FastAPI costs more than the work itself."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    catalogue: Catalogue = request.app.state.catalogue
    account = None
    if scheme.lower() == "bearer":
        account = await catalogue.find_account(hashlib.sha256(key.encode()).digest())
    if account is None:
        raise HTTPException(401, "Send your API key as `Authorization: Bearer <API_KEY>`.")
    return account


@router.get("/health/ready")
async def ready(request: Request) -> Response:
    await request.app.state.catalogue.bundles()
    return json_response(b'{"status":"ok"}')


_BODY = {"requestBody": {"content": {"application/json": {"schema": OrderByEstimateIn.model_json_schema()}}}}


@router.post("/v1/orders/by-estimate", responses={201: {"model": OrderOut}}, openapi_extra=_BODY)
async def place_by_estimate(request: Request) -> Response:
    account = await authenticate(request)
    # The raw body is needed for its hash. Parsing and validating it in one step is the fastest way of Pydantic.
    raw = await request.body()
    try:
        requested = OrderByEstimateIn.model_validate_json(raw)
    except ValidationError as error:
        raise HTTPException(400, orjson.loads(error.json(include_url=False, include_input=False))) from error
    new = _new_order(requested, raw)
    state = request.app.state
    try:
        document, original_digest = await place_order(state.engine, account, new, await state.catalogue.bundles())
    except (EstimateUnknown, BundleUnknown) as error:
        raise HTTPException(400, str(error)) from error
    if original_digest is None:
        return json_response(document, 201)
    headers = {"Idempotent-Replayed": "true"}
    if original_digest != new.digest:
        headers["Idempotency-Mismatch"] = "true"
    return json_response(document, 200, headers)


@router.get("/v1/orders/by-idempotency-key/{idempotency_key:path}", responses={200: {"model": OrderOut}})
async def read(request: Request) -> Response:
    account = await authenticate(request)
    document = await read_by_key(request.app.state.engine, account, request.path_params["idempotency_key"])
    if document is None:
        raise HTTPException(404, "There is no such order.")
    return json_response(orjson.dumps(document))


@router.get("/v1/orders", responses={200: {"model": OrderList}})
async def list_page(
    request: Request, limit: Annotated[int, Query(ge=1, le=100)] = 10, after: str | None = None
) -> Response:
    account = await authenticate(request)
    start = None if after is None else _parse_cursor(after)
    page, last = await list_orders(request.app.state.engine, account, limit, start)
    cursor = None if last is None else _make_cursor(*last)
    return json_response(orjson.dumps({"has_more": cursor is not None, "next_cursor": cursor, "data": page}))


def create_app(url: str) -> FastAPI:
    engine = create_engine(url)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await engine.dispose()

    app = FastAPI(title="Peer", lifespan=lifespan)
    app.state.engine = engine
    app.state.catalogue = Catalogue(engine)
    app.include_router(router)
    return app


def _new_order(requested: OrderByEstimateIn, raw: bytes) -> NewOrder:
    metadata = orjson.dumps(requested.metadata or {})
    if len(metadata) > MAX_METADATA_BYTES:
        raise HTTPException(400, "metadata is larger than 16 KiB.")
    chosen = requested.bundle_selection
    return NewOrder(
        estimate_id=requested.estimate_id,
        idempotency_key=requested.idempotency_key,
        digest=hashlib.sha256(raw).digest(),
        selection=None if chosen is None else [(choice.bundle_id, _weight(choice.percentage)) for choice in chosen],
        metadata=metadata.decode(),
    )


def _weight(percentage: str | None) -> int:
    """Hundredths of a per cent, or 1 for each bundle of an equal split."""
    return 1 if percentage is None else int(Decimal(percentage) * 100)


def _make_cursor(created_at: datetime, order_id: str) -> str:
    raw = _MOMENT.pack((created_at - _EPOCH) // timedelta(milliseconds=1)) + order_id.encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _parse_cursor(text: str) -> tuple[datetime, str]:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        (milliseconds,) = _MOMENT.unpack_from(raw)
        return _EPOCH + timedelta(milliseconds=milliseconds), raw[_MOMENT.size :].decode("ascii")
    except (ValueError, struct.error, OverflowError) as error:
        raise HTTPException(400, "after is not a cursor: pass next_cursor unchanged.") from error
