"""The OpenAPI document of this checkout, without a database, and with its shared parts where they are used."""

import asyncio
import base64
import json
import re
from typing import Any

from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.http.openapi.schemas import example_of
from tonne.platform.http.route import Request
from tonne.platform.settings.load_settings import load_settings

CODE_ONLY = re.compile(r"^- `(\w+)`$", re.MULTILINE)


def openapi_document() -> dict[str, Any]:
    """Constructing the parts connects to nothing. The settings are the defaults."""
    secret = base64.b64encode(bytes(range(32))).decode()
    url = "postgresql://127.0.0.1:1/none"
    settings = load_settings({"TONNE_DATABASE_URL": url, "TONNE_SECRET_KEY": secret})

    async def read() -> bytes:
        routes = Services(Database(url, settings), settings).routes()
        endpoint = next(route.endpoint for route in routes if route.path == "/openapi.json")
        return (await endpoint(Request.without_body("/openapi.json", b"", {}))).body

    return inlined(json.loads(asyncio.run(read())))


def inlined(document: dict[str, Any]) -> dict[str, Any]:
    """With responses, parameters and messages of errors wherever they are used, and an example of every response."""
    components = document["components"]
    shared = "\n".join(each["description"] for each in components["responses"].values())
    messages = dict(re.findall(r"^- `(\w+)`: (.+)$", shared, re.MULTILINE))

    def resolved(node: Any) -> Any:
        if isinstance(node, list):
            return [resolved(each) for each in node]
        if not isinstance(node, dict):
            return node
        _, _, kind, name = str(node.get("$ref", "///")).split("/")
        if kind in {"responses", "parameters"}:
            return resolved(components[kind][name])
        return {key: value if key == "example" else resolved(value) for key, value in node.items()}

    whole = {**document, "paths": resolved(document["paths"]), "webhooks": resolved(document["webhooks"])}
    for operation in (operation for methods in whole["paths"].values() for operation in methods.values()):
        for status, response in operation["responses"].items():
            response["description"] = CODE_ONLY.sub(
                lambda found: f"{found[0]}: {messages[found[1]]}", response["description"]
            )
            media = response.get("content", {}).get("application/json")
            if media is not None and status < "400":
                media.setdefault("example", example_of(media["schema"], components["schemas"]))
    return whole
