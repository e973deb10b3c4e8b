"""The OpenAPI document of this checkout, read into the operations that the clients offer."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from clients.generate.names import ACTIONS, VERBS, method_words
from tools.docs.openapi import openapi_document

REF = "#/components/schemas/"
Schema = Mapping[str, Any]

# POST requests that change nothing, or set a state: repeating one after a lost response does no harm.
REPEATABLE = re.compile(r"quoteOrder\w+|exportPerson|retryWebhookNow|rewindWebhook|upload\w*Logo|(un)?archive\w+")
_IDEMPOTENCY_KEY = "idempotency_key"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the path or the query. `wire_name` is its name there; a query may have `metadata[key]`."""

    wire_name: str
    description: str
    schema: Schema

    @property
    def name(self) -> str:
        return self.wire_name.partition("[")[0]

    @property
    def is_map(self) -> bool:
        return "[" in self.wire_name or self.schema.get("type") == "object"


@dataclass(frozen=True, slots=True)
class Operation:
    """`repeat` says when the client may send the request again: `always`, `never`, or with the key that it carries
    (`key`; `header` if its header carries it; `items` if each element of the body carries one). After a repeated
    `delete`, 404 is a success.
    """

    operation_id: str
    resource: str
    words: tuple[str, ...]
    method: str
    path: str
    summary: str
    description: str
    path_parameters: tuple[Parameter, ...]
    query: tuple[Parameter, ...]
    body: Schema | None
    is_body_required: bool
    is_multipart: bool
    # None: no body. A schema with the format `binary`: a file.
    returns: Schema | None
    repeat: str

    @property
    def is_file(self) -> bool:
        return self.returns is not None and self.returns.get("format") == "binary"


class Document:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self.schemas: dict[str, Schema] = document["components"]["schemas"]
        self.tags = {tag["name"]: tag["description"] for tag in document["tags"]}
        found = [
            (operation["tags"][0], self._operation(method, path, methods))
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
            # PUT …/rotate-secret is another spelling of POST, for existing clients of other services.
            if method != "put" or path.rpartition("/")[2] not in ACTIONS
        ]
        self.operations = [operation for _, operation in found]
        self.resource_tags = {operation.resource: tag for tag, operation in reversed(found)}
        _check_names(self.operations)
        self.delivery = f"{REF}WebhookDelivery"

    def resources(self) -> Iterator[tuple[str, list[Operation]]]:
        """Each resource with its operations, by name."""
        for resource in sorted({operation.resource for operation in self.operations}):
            yield resource, [operation for operation in self.operations if operation.resource == resource]

    def resolve(self, schema: Schema) -> Schema:
        return self.schemas[schema["$ref"].removeprefix(REF)] if "$ref" in schema else schema

    def page_item(self, operation: Operation) -> Schema | None:
        """The schema of the elements, if the operation returns one page of a list."""
        if operation.returns is None or not any(parameter.name == "after" for parameter in operation.query):
            return None
        fields = self.resolve(operation.returns).get("properties", {})
        is_page = {"has_more", "next_cursor", "data"} <= fields.keys()
        return fields["data"]["items"] if is_page else None

    def used(self, *, in_requests: bool) -> set[str]:
        """Names of the schemas that requests, or responses and events, contain.

        A request that a response repeats as it was sent has the type of the request.
        """
        if in_requests:
            roots = [operation.body for operation in self.operations if operation.body is not None]
        else:
            roots = [operation.returns for operation in self.operations if operation.returns is not None]
            roots += [{"$ref": self.delivery}, {"$ref": f"{REF}Error"}]
        names: set[str] = set()
        for root in roots:
            self._add_names(root, names)
        return names if in_requests else {name for name in names if not name.endswith("Input")}

    def _add_names(self, node: Any, names: set[str]) -> None:
        if isinstance(node, list):
            for part in node:
                self._add_names(part, names)
        elif isinstance(node, dict):
            name = node["$ref"].removeprefix(REF) if isinstance(node.get("$ref"), str) else None
            if name is not None and name not in names:
                names.add(name)
                self._add_names(self.schemas[name], names)
            for key, part in node.items():
                if key not in {"discriminator", "examples"}:
                    self._add_names(part, names)

    def _operation(self, method: str, path: str, methods: Mapping[str, Any]) -> Operation:
        operation = methods[method]
        content = operation.get("requestBody", {}).get("content", {})
        media_type = next(iter(content), "")
        body = content[media_type]["schema"] if content else None
        successes = [response for status, response in operation["responses"].items() if status.startswith("2")]
        answers = [media["schema"] for response in successes for media in response.get("content", {}).values()]
        returns, is_multipart = answers[0] if answers else None, media_type == "multipart/form-data"
        verb = "upload" if is_multipart else self._verb(method, methods, returns)
        places: dict[str, list[Parameter]] = {"path": [], "query": [], "header": []}
        for item in operation["parameters"]:
            places[item["in"]].append(Parameter(item["name"], item["description"], item["schema"]))
        return Operation(
            operation_id=operation["operationId"],
            resource=path.split("/")[2].replace("-", "_"),
            words=method_words(verb, method, path),
            method=method.upper(),
            path=path,
            summary=operation["summary"],
            description=operation["description"],
            path_parameters=tuple(places["path"]),
            query=tuple(places["query"]),
            body=body,
            is_body_required=operation.get("requestBody", {}).get("required", False),
            is_multipart=is_multipart,
            returns=returns,
            repeat="delete" if method == "delete" and not answers else self._repeat(method.upper(), operation, body),
        )

    def _verb(self, method: str, methods: Mapping[str, Any], returns: Schema | None) -> str:
        if method == "put" and "patch" in methods:
            return "replace"
        if method != "get" or returns is None:
            return VERBS[method]
        if returns.get("format") == "binary":
            return "download"
        whole = self.resolve(returns)
        fields = whole.get("properties", {}).keys()
        is_list = whole.get("type") == "array" or ("data" in fields and fields <= {"data", "has_more", "next_cursor"})
        return "list" if is_list else VERBS[method]

    def _repeat(self, method: str, operation: Mapping[str, Any], body: Schema | None) -> str:
        with_key = "never" if body is None else self._repeat_with_key(body)
        takes_header = any(item["name"] == "Idempotency-Key" for item in operation["parameters"])
        if takes_header and with_key == "never":
            return "header"
        return "always" if method != "POST" or REPEATABLE.fullmatch(operation["operationId"]) else with_key

    def _repeat_with_key(self, body: Schema) -> str:
        if self._has_key(body):
            return "key"
        whole = self.resolve(body)
        if whole.get("type") == "array" and self._has_key(whole["items"]):
            return "items"
        return "never"

    def _has_key(self, schema: Schema) -> bool:
        whole = self.resolve(schema)
        members = [*whole.get("oneOf", ()), *whole.get("anyOf", ())]
        return _IDEMPOTENCY_KEY in whole.get("properties", {}) or any(self._has_key(member) for member in members)


def read_document() -> Document:
    """The document that a service of this checkout serves. It needs no database."""
    return Document(openapi_document())


def _check_names(operations: list[Operation]) -> None:
    taken: dict[tuple[str, tuple[str, ...]], str] = {}
    for operation in operations:
        other = taken.setdefault((operation.resource, operation.words), operation.operation_id)
        if other != operation.operation_id:
            raise SystemExit(f"{operation.operation_id} and {other} get the same name: add one to NAMES in names.py.")
