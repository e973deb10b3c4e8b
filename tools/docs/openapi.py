"""The OpenAPI document of this checkout, without a database."""

import asyncio
import base64
import json
from typing import Any

from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.http.route import Request
from tonne.platform.settings.load_settings import load_settings


def openapi_document() -> dict[str, Any]:
    """Constructing the parts connects to nothing. The settings are the defaults."""
    secret = base64.b64encode(bytes(range(32))).decode()
    url = "postgresql://127.0.0.1:1/none"
    settings = load_settings({"TONNE_DATABASE_URL": url, "TONNE_SECRET_KEY": secret})

    async def read() -> bytes:
        routes = Services(Database(url, settings), settings).routes()
        endpoint = next(route.endpoint for route in routes if route.path == "/openapi.json")
        return (await endpoint(Request.without_body("/openapi.json", b"", {}))).body

    document: dict[str, Any] = json.loads(asyncio.run(read()))
    return document
