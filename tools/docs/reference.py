"""The pages of the API reference: one for each group of routes, and one for objects that several groups use."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.docs.schema_text import cell, field_rows, references, type_text

JsonObject = dict[str, Any]
SHARED = "objects.md"
EVENTS = "events-of-webhooks.md"
# Errors of every operation: named once, on the first page.
_EVERYWHERE = ("401", "429", "500", "503")


def reference_pages(document: JsonObject, folder: Path) -> list[tuple[str, str]]:
    """Write the pages; return title and path of each for the navigation."""
    folder.mkdir(parents=True, exist_ok=True)
    reference = Reference(document)
    pages = {"index.md": reference.first_page()}
    titles = {"index.md": "Overview"}
    for tag in document["tags"]:
        name = page_name(tag["name"])
        pages[name], titles[name] = reference.group_page(tag), tag["name"]
    pages[EVENTS], titles[EVENTS] = reference.events_page(), "Events of webhooks"
    pages[SHARED], titles[SHARED] = reference.shared_page(), "Common objects"
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [(titles[name], f"api/{name}") for name in pages]


def page_name(tag: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", tag.lower()).strip("-") + ".md"


class Reference:
    def __init__(self, document: JsonObject) -> None:
        self._document = document
        self._schemas: dict[str, JsonObject] = document["components"]["schemas"]
        self._homes = self._find_homes()

    def first_page(self) -> str:
        groups = []
        for tag in self._document["tags"]:
            link = f"[{tag['name']}]({page_name(tag['name'])})"
            groups.append(f"| {link} | {cell(tag['description'])} | {len(list(self._of(tag['name'])))} |")
        headers = [
            f"| `{name}` | {cell(header['description'])} |" for name, header in _named_headers(self._document).items()
        ]
        errors = self._common_errors()
        return _page(
            "# API reference",
            "Every route, parameter and field of the API. These pages are generated from the OpenAPI document of this "
            "version: [`/openapi.json`](/openapi.json). To send requests from the browser, use the "
            "[interactive reference](/docs/try/).",
            self._document["info"]["description"],
            "## Groups",
            _table("Group", "What it does", "Routes", rows=groups),
            f"[Events of webhooks]({EVENTS}) lists what your receiver gets, [Common objects]({SHARED}) the objects "
            "that several groups use.",
            "## Headers of responses",
            _table("Header", "Meaning", rows=headers),
            "## Errors of every route",
            "All errors have the same format, see [Errors](../errors.md). These can occur on every route; the routes "
            "list only their own.",
            _table("Status", "Code", "Message", rows=errors),
        )

    def group_page(self, tag: JsonObject) -> str:
        name = tag["name"]
        operations = list(self._of(name))
        contents = [
            f"| [`{method.upper()} {path}`](#{operation['operationId'].lower()}) | {cell(operation['summary'])} |"
            for method, path, operation in operations
        ]
        own = [schema for schema, home in self._homes.items() if home == page_name(name)]
        parts = [
            f"# {name}",
            tag["description"],
            _table("Route", "What it does", rows=contents),
            *(self._operation(*operation, page_name(name)) for operation in operations),
        ]
        if own:
            parts += ["## Objects", *(self._object(schema, page_name(name)) for schema in own)]
        return _page(*parts)

    def events_page(self) -> str:
        introduction = (
            "The body of a request to your receiver has one event or more. [Webhooks](../webhooks.md) explains "
            "delivery, retries and signatures."
        )
        parts = ["# Events of webhooks", introduction]
        first = next(iter(self._document["webhooks"].values()))["post"]
        parts += ["## Headers", _parameters(first["parameters"], required_only=False)]
        for event_type, methods in self._document["webhooks"].items():
            operation = methods["post"]
            body = operation["requestBody"]["content"]["application/json"]
            parts += [
                f"## `{event_type}` {{#{event_type.replace('.', '-')}}}",
                f"**{operation['summary']}.** " + operation["description"].partition("\n\n")[0],
            ]
            names = [name for name in references(body["schema"]) if name not in {"WebhookDelivery", "WebhookEvent"}]
            parts += ["Object: " + ", ".join(self._link(name, EVENTS) for name in names)]
            parts += [_example(body, "Example of the body")]
        own = [schema for schema, home in self._homes.items() if home == EVENTS]
        return _page(*parts, "## Objects", *(self._object(schema, EVENTS) for schema in own))

    def shared_page(self) -> str:
        shared = [schema for schema, home in self._homes.items() if home == SHARED]
        return _page(
            "# Common objects",
            "Objects that several groups of routes use.",
            *(self._object(schema, SHARED) for schema in shared),
        )

    def _of(self, tag: str) -> Iterator[tuple[str, str, JsonObject]]:
        for path, methods in self._document["paths"].items():
            for method, operation in methods.items():
                if operation["tags"] == [tag]:
                    yield method, path, operation

    def _operation(self, method: str, path: str, operation: JsonObject, page: str) -> str:
        parts = [
            f"## {operation['summary']} {{#{operation['operationId'].lower()}}}",
            f"```http {{ .route }}\n{method.upper()} {path}\n```",
            operation["description"],
        ]
        if operation.get("security") == []:
            parts.append("No API key is needed.")
        if operation["parameters"]:
            parts += ["**Parameters**", _parameters(operation["parameters"])]
        body = operation.get("requestBody")
        if body is not None:
            parts += self._body(body, page)
        for status, response in operation["responses"].items():
            if int(status) < 400:
                parts += self._response(status, response, page)
        errors = [
            row
            for status, response in operation["responses"].items()
            if int(status) >= 400 and status not in _EVERYWHERE
            for row in _error_rows(status, response)
        ]
        if errors:
            parts += ["**Errors**", _table("Status", "Code", "Message", rows=errors)]
        operation_id, tag = operation["operationId"], operation["tags"][0].replace(" ", "%20")
        parts.append(f"Operation `{operation_id}`. [Try it](/docs/try/#/{tag}/{operation_id}).")
        return "\n\n".join(parts)

    def _body(self, body: JsonObject, page: str) -> list[str]:
        parts = []
        for media_type, content in body["content"].items():
            optional = "" if body.get("required") else ", optional"
            parts.append(f"**Body** (`{media_type}`{optional})")
            schema = content["schema"]
            for name in references(schema)[:1]:
                if self._schemas[name].get("properties"):
                    schema = self._schemas[name]
            if schema.get("properties"):
                parts.append(self._fields(schema, page))
            elif schema:
                parts.append(self._type(schema, page))
            parts.append(_example(content, "Example"))
        return [part for part in parts if part]

    def _response(self, status: str, response: JsonObject, page: str) -> list[str]:
        parts = [f"**Response {status}**: {response['description']}"]
        for media_type, content in response.get("content", {}).items():
            shape = self._type(content["schema"], page) if content.get("schema") else ""
            if media_type == "application/json" and shape:
                parts[0] += f" Body: {shape}."
            elif media_type != "application/json":
                parts[0] += f" Body: `{media_type}`."
            parts.append(_example(content, f"Example of a {status} response"))
        return [part for part in parts if part]

    def _object(self, name: str, page: str) -> str:
        schema = self._schemas[name]
        parts = [f"### {name} {{#{anchor(name)}}}", schema.get("description", "")]
        if "enum" in schema:
            parts.append("One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + ".")
        elif "oneOf" in schema:
            parts.append("One of " + ", ".join(self._link(found, page) for found in references(schema["oneOf"])) + ".")
        elif schema.get("properties"):
            parts.append(self._fields(schema, page))
        else:
            parts.append(f"Type: {self._type(schema, page)}.")
        return "\n\n".join(part for part in parts if part)

    def _fields(self, schema: JsonObject, page: str) -> str:
        rows = field_rows(schema, lambda name: self._link(name, page))
        return _table("Field", "Type", "Description", "Example", rows=rows)

    def _type(self, schema: JsonObject, page: str) -> str:
        return type_text(schema, lambda name: self._link(name, page))

    def _link(self, name: str, page: str) -> str:
        home = self._homes[name]
        return f"[{name}]({'' if home == page else home}#{anchor(name)})"

    def _find_homes(self) -> dict[str, str]:
        """The page of each schema: that of the only group that uses it, or the one of common objects."""
        users: dict[str, set[str]] = {}
        for tag in self._document["tags"]:
            for _, _, operation in self._of(tag["name"]):
                successes = [found for status, found in operation["responses"].items() if int(status) < 400]
                self._mark([operation.get("requestBody", {}), successes], page_name(tag["name"]), users)
        self._mark(self._document["webhooks"], EVENTS, users)
        return {
            name: next(iter(found)) if len(found := users.get(name, {SHARED})) == 1 else SHARED
            for name in self._schemas
        }

    def _mark(self, node: Any, page: str, users: dict[str, set[str]]) -> None:
        for name in references(node):
            pages = users.setdefault(name, set())
            if page not in pages:
                pages.add(page)
                self._mark(self._schemas[name], page, users)

    def _common_errors(self) -> list[str]:
        rows: dict[str, None] = {}
        for methods in self._document["paths"].values():
            for operation in methods.values():
                for status in _EVERYWHERE:
                    rows |= dict.fromkeys(_error_rows(status, operation["responses"].get(status, {})))
        return list(rows)


def anchor(schema: str) -> str:
    return f"object-{schema.lower()}"


def _named_headers(document: JsonObject) -> dict[str, JsonObject]:
    """Headers by the names under which responses have them."""
    found: dict[str, JsonObject] = {}
    for methods in document["paths"].values():
        for operation in methods.values():
            for response in operation["responses"].values():
                for name, header in response.get("headers", {}).items():
                    component = header.get("$ref", "").rpartition("/")[2]
                    found[name] = document["components"]["headers"][component] if component else header
    return found


def _parameters(parameters: list[JsonObject], *, required_only: bool = True) -> str:
    rows = []
    for item in parameters:
        required = " (required)" if required_only and item.get("required") else ""
        shape = type_text(item["schema"], lambda name: f"`{name}`")
        rows.append(f"| `{item['name']}` | {item['in']}{required} | {shape} | {cell(item['description'])} |")
    return _table("Name", "In", "Type", "Description", rows=rows)


def _error_rows(status: str, response: JsonObject) -> list[str]:
    found = re.findall(r"^- `(\w+)`: (.+)$", response.get("description", ""), re.MULTILINE)
    return [f"| {status} | [`{code}`](../errors.md) | {cell(message)} |" for code, message in found]


def _example(content: JsonObject, title: str) -> str:
    if "example" not in content:
        return ""
    text = json.dumps(content["example"], indent=2, ensure_ascii=False)
    indented = "\n".join(f"    {line}" for line in f"```json\n{text}\n```".splitlines())
    return f'??? example "{title}"\n\n{indented}'


def _table(*columns: str, rows: list[str]) -> str:
    head = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"
    return "\n".join([head, *rows])


def _page(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
