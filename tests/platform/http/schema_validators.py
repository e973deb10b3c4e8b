"""Validators of the schemas in the OpenAPI document, which share the document: alone, each would compile all of it."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import jsonschema_rs

_ADDRESS = "https://document.test/"


def validators_of(document: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], jsonschema_rs.Draft202012Validator]:
    """A function that returns the validator of a schema with references into the document."""
    registry = jsonschema_rs.Registry([(_ADDRESS, dict(document))])

    def validator(schema: Mapping[str, Any]) -> jsonschema_rs.Draft202012Validator:
        absolute = json.loads(json.dumps(schema).replace('"$ref": "#', f'"$ref": "{_ADDRESS}#'))
        return jsonschema_rs.Draft202012Validator(absolute, registry=registry, validate_formats=True)

    return validator
