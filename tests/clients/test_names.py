"""The methods of both clients have the names that docs/clients.md promises, and send what the names say."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.clients import every_method
from tests.clients.node import TYPESCRIPT
from tests.support.processes import ROOT
from tools.docs.openapi import openapi_document

GUIDE = (ROOT / "docs" / "clients.md").read_text("utf-8")
# Another spelling, for existing clients: `webhooks.rotate_secret` sends POST.
SPELLINGS = {"PUT /v1/webhooks/{webhook_id}/rotate-secret"}
FIRST_WORDS = {"POST": "create", "PUT": "update", "PATCH": "update", "DELETE": "delete"}
Names = dict[str, str]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return openapi_document()


def actions() -> set[str]:
    """The named actions of the guide: `orders.cancel`."""
    table = GUIDE.partition("| Resource | Actions |\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \|(.+)\|$", table, re.MULTILINE)
    return {f"{resource}.{action}" for resource, text in rows for action in re.findall(r"`(\w+)`", text)}


def typescript_names() -> Names:
    text = (TYPESCRIPT / "src" / "resources.ts").read_text("utf-8")
    attributes = {kind: name for name, kind in re.findall(r"this\.(\w+) = new (\w+)\(caller\)", text)}
    names: Names = {}
    for part in text.split("export class ")[1:]:
        attribute = attributes.get(part.partition(" ")[0], "")
        for name, code in re.findall(r"^  (\w+)\((.+?)^  }$", part, re.MULTILINE | re.DOTALL):
            if found := re.search(r"#caller\.(?:call\(\"(\w+)\", |pages\()(`[^`]+`|\"[^\"]+\")", code):
                path = re.sub(r"\$\{segment\(\"(\w+)\", \w+\)\}", lambda each: f"{{{_snake(each[1])}}}", found[2])
                names[f"{found[1] or 'GET'} {path[1:-1]}"] = f"{_snake(attribute)}.{_snake(name)}"
    return names


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)


def test_both_clients_have_one_method_for_every_operation_with_the_same_name(document: dict[str, Any]) -> None:
    requests = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    names = {sent.operation: sent.name for sent in every_method.blocking()}
    assert names.keys() == requests - SPELLINGS
    assert names == {sent.operation: sent.name for sent in every_method.waiting()} == typescript_names()


def test_the_first_word_says_what_a_method_does_or_it_is_a_named_action(document: dict[str, Any]) -> None:
    names, wrong = {sent.operation: sent.name for sent in every_method.blocking()}, []
    for operation, name in names.items():
        method, _, path = operation.partition(" ")
        if name not in actions():
            expected = FIRST_WORDS.get(method) or _first_word_of_get(document, path)
            first, *others = name.partition(".")[2].split("_")
            strange = [word for word in others if word != "by" and not re.search(rf"[/{{-]{word.rstrip('s')}", path)]
            if first != expected or strange:
                wrong.append(f"{operation} is {name}, and {strange} are not in its path")
    assert wrong == []
    assert actions() <= set(names.values()), "the guide names actions that do not exist"
    assert not [name for name in actions() if re.search(r"\.(create|list|retrieve|update|delete)(_|$)", name)]


def _first_word_of_get(document: Mapping[str, Any], path: str) -> str:
    """A path that ends in an id is one object; so is one whose response is no list."""
    media = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    schema = document["components"]["schemas"][media["$ref"].rpartition("/")[2]] if "$ref" in media else media
    is_list = schema.get("type") == "array" or "has_more" in schema.get("properties", ())
    is_list = is_list or list(schema.get("properties", ())) == ["data"]
    return "list" if is_list and not path.endswith("}") else "retrieve"
