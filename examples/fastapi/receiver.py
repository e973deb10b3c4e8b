"""A receiver of Tonne's webhooks with FastAPI: verifies, stores, responds, and handles the events afterwards.

    pip install tonne-client fastapi uvicorn
    WEBHOOK_SECRETS=whsec_... uvicorn receiver:app --port 9000

Give both secrets, separated by a space, while you rotate them. Several processes may share the file of the inbox.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool

from tonne_client import SqliteStore, WebhookInbox, WebhookInvalid, verify_webhook
from tonne_client.models import WebhookEvent

SECRETS = os.environ["WEBHOOK_SECRETS"].split()
inbox = WebhookInbox(SqliteStore(os.environ.get("INBOX_FILE", "inbox.db")))


async def handle(event: WebhookEvent) -> None:
    """Replace this by what your system does. It may be called twice for an event, if the process dies meanwhile."""
    if event.event_type.startswith("order."):
        print(event.event_type, event.to_dict()["data"]["order"]["id"], flush=True)


async def handle_for_ever() -> None:
    while True:
        try:
            await inbox.process_async(handle)
        except Exception as error:  # noqa: BLE001 - the event is tried again
            print(f"{error!r}: {error.__notes__}", flush=True)
        await asyncio.sleep(0.2)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    handling = asyncio.create_task(handle_for_ever())
    yield
    handling.cancel()


app = FastAPI(lifespan=lifespan)


@app.post("/tonne")
async def receive(request: Request) -> Response:
    # The raw body: parsing and writing it again would change the bytes that were signed.
    body = await request.body()
    try:
        events = verify_webhook(body, request.headers, SECRETS)
    except WebhookInvalid as error:
        return Response(str(error), status_code=401)
    # In a thread: writing to disk must not block the event loop.
    await run_in_threadpool(inbox.receive, events)
    return Response(status_code=204)
