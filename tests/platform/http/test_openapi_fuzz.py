"""A fuzzing client generated from the OpenAPI document finds no 500, no undocumented status and no invalid response."""

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.platform.http.conftest import LiveServer
from tests.support.api_client import ApiClient
from tests.support.rounds import IS_LONG
from tests.support.world import World
from tools.docs.openapi import inlined

# Some data are valid by their schema but break a rule that a schema cannot state: percentages that sum to 100, bundles
# that exist, a mass of at least one gram. This check would report each of them.
NOT_CHECKED = "positive_data_acceptance"


def fuzz(live: LiveServer, key: str, document: str, folder: Path, *options: str) -> None:
    """Deterministic: the same document and options give the same requests every time."""
    command = [
        *(sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()", "run", document),
        *("--url", live.url, "--header", f"Authorization: Bearer {key}"),
        *("--checks", "all", "--exclude-checks", NOT_CHECKED, "--suppress-health-check", "all"),
        *("--generation-deterministic", "--no-shrink", "--continue-on-failure", "--no-color", "--warnings", "off"),
        *options,
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


# Sending a test event may take 30 seconds and has tests of its own. The coverage of the rest takes as long as five
# hundred other tests: `make test-random` has it.
@pytest.mark.parametrize(
    "part",
    [
        ("--include-path-regex", "^/v1/orders", "--phases", "examples,coverage,fuzzing"),
        ("--exclude-path-regex", "^/v1/orders|/test$", "--phases", f"examples,{'coverage,' * IS_LONG}fuzzing"),
    ],
    ids=["orders", "rest"],
)
def test_the_api_responds_as_the_document_says(
    part: tuple[str, ...], live_server: LiveServer, world: World, tmp_path: Path
) -> None:
    document = httpx.get(f"{live_server.url}/openapi.json", timeout=60).json()
    accepted = tmp_path / "accepted.json"
    accepted.write_text(json.dumps(with_any_item(with_numbers(document))))
    fuzz(live_server, world.ours_test.key, str(accepted), tmp_path, *part, "--max-examples", "5" if IS_LONG else "2")


async def test_orders_with_existing_ids_respond_as_the_document_says(
    live_api: ApiClient, live_server: LiveServer, world: World, tmp_path: Path
) -> None:
    """With random ids, most requests fail because the bundle does not exist, and pricing is never reached."""
    known: dict[str, list[Any]] = {
        "bundle_id": [*world.bundles_test.values()],
        "estimate_id": [await live_api.estimate()],
        "order_id": [(await live_api.order(idempotency_key="fuzz / one"))["id"]],
        "idempotency_key": ["fuzz / one", "fuzz / two"],
        "percentage": [100, "100", 50, "50.00"],
        "quote_id": [(await live_api.post("/v1/quotes", {"value": "20.00"})).json()["id"]],
    }
    document = inlined((await live_api.http.get("/openapi.json")).json())
    narrowed = tmp_path / "narrowed.json"
    narrowed.write_text(json.dumps(with_known_values(with_numbers(document), known)))
    options = ("--include-path-regex", "^/v1/(orders/|quotes)", "--mode", "positive", "--phases", "fuzzing")
    fuzz(
        live_server, world.ours_test.key, str(narrowed), tmp_path, *options, "--max-examples", "20" if IS_LONG else "10"
    )


def with_numbers(document: dict[str, Any]) -> dict[str, Any]:
    """The document with all that the service accepts: it describes strings only, but amounts may also be numbers."""
    wider = copy.deepcopy(document)
    schemas = wider["components"]["schemas"]
    amount = schemas["MassInput"]["properties"]["amount"]
    amount["anyOf"] = [{"type": amount.pop("type"), "pattern": amount.pop("pattern")}, {"type": "number", "minimum": 0}]
    percentage = schemas["BundleChoiceInput"]["properties"]["percentage"]
    percentage["anyOf"].append({"type": "number", "exclusiveMinimum": 0, "maximum": 100})
    return wider


def with_any_item(document: dict[str, Any]) -> dict[str, Any]:
    """A batch is accepted with items that are not valid: the response has an error for each of them."""
    document["components"]["schemas"]["OrderBatchInput"]["properties"]["orders"]["items"] = {}
    return document


def with_known_values(document: dict[str, Any], known: dict[str, list[Any]]) -> dict[str, Any]:
    """The document with known values instead of any value in requests. Responses stay the same."""
    narrowed = copy.deepcopy(document)
    ways = ("OrderByEstimateInput", "OrderByMassInput", "OrderByValueInput", "OrderBatchItemInput", "LockedQuoteInput")
    for schema_name in (*ways, "BundleChoiceInput", "BundleMassInput"):
        properties = narrowed["components"]["schemas"][schema_name]["properties"]
        for name in known.keys() & properties.keys():
            properties[name] = {"enum": known[name]}
    for methods in narrowed["paths"].values():
        for operation in methods.values():
            for parameter in operation["parameters"]:
                if parameter["in"] == "path" and parameter["name"] in known:
                    parameter["schema"] = {"enum": known[parameter["name"]]}
            operation["parameters"] = [each for each in operation["parameters"] if each["in"] != "header"]
    return narrowed
