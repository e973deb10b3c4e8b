"""Snippets of the documentation that are not executed, with the reason, and what others need to run."""

LONG = "takes minutes; tests/bench and tests/chaos run short forms"
FOREVER = "runs until it is stopped; tests/cli runs `tonne listen` with this receiver"
IN_TEST_CLIENTS = "tests/integration/test_clients.py runs it"
IN_TEST_VERIFY = "tests/integration/test_verify_package.py runs it, from the wheel"
LOTS = "needs lots, or retirements, of the reader; tests/retirements and tests/cli have such files"

# Page and beginning of the first line of the block.
EXCEPTIONS = {
    ("README.md", "make run"): "starts the service that runs here, and the tests",
    ("README.md", "export TONNE_API_KEY=$KEY"): FOREVER,
    ("docs/first-order.md", "make run"): "starts the service that runs here",
    ("docs/benchmarks.md", "make bench"): LONG,
    ("docs/benchmarks.md", ".venv/bin/python -m bench"): LONG,
    ("docs/chaos.md", "make chaos"): LONG,
    ("docs/conformance.md", "pip install"): "tests/conformance runs the suite against a service of its own",
    ("docs/conformance.md", "eval"): "starts another service; tests/conformance does that with these settings",
    ("docs/webhooks.md", "export TONNE_API_KEY"): FOREVER,
    ("docs/clients.md", "pip install"): "tests/integration/test_client_libraries.py installs it",
    ("docs/clients.md", "npm ci"): "tests/integration/test_client_libraries.py builds it",
    ("docs/clients.md", "npx"): IN_TEST_CLIENTS,
    ("docs/clients.md", "openapi-python-client"): IN_TEST_CLIENTS,
    ("docs/clients.md", "datamodel-codegen"): IN_TEST_CLIENTS,
    ("docs/clients.md", "from tonne_generated import AuthenticatedClient"): IN_TEST_CLIENTS,
    (
        "docs/offset-links.md",
        "import hashlib",
    ): "tests/platform/http/test_offset_links_guide.py runs it, with a customer",
    ("docs/operations.md", "python3 -m venv"): "installs into /opt; tests/integration/test_wheel.py installs the wheel",
    ("docs/operations.md", "useradd"): "changes the machine; tests/integration/test_systemd.py checks the units",
    ("docs/operations.md", "$ tonne backup"): "restores into another PostgreSQL; tests/cli does that",
    (
        "docs/operations.md",
        "$ pgbackrest",
    ): "needs an archiving PostgreSQL; tests/integration/test_point_in_time.py has one",
    (
        "docs/operations-reference.md",
        "CREATE ROLE",
    ): "needs a role of another server; tests/apps/cli/test_login.py runs it",
    (
        "docs/operations-reference.md",
        "ALTER ROLE",
    ): "needs a role of another server; tests/integration/test_pgbouncer.py has one",
    (
        "docs/operations.md",
        '{"status": "warning"',
    ): "output of `tonne doctor --json`; tests/apps/cli/test_doctor.py checks it",
    (
        "docs/operations-reference.md",
        "TONNE_TRACING=true",
    ): "needs the packages of the extra `otel`; tests/http has traces",
    ("docs/estimates.md", "curl -s http://localhost:8080/v1/estimates/transactions"): (
        "servers notice imported factors after some seconds; tests/estimates calculates transactions"
    ),
    ("docs/registries.md", "tonne registry upload"): "needs the list of an account; tests/supply/registries has one",
    ("docs/bank.md", "tonne invoice import-statement"): "needs a statement of a bank; tests/banking has some",
    (
        "docs/tax.md",
        "$ tonne rates import-ecb",
    ): "needs a file of the European Central Bank; tests/money/invoices/test_home_tax.py has one",
    ("docs/cards.md", "tonne card set ACCOUNT_ID --customer"): "needs a customer at Stripe",
    ("docs/production.md", "tonne check"): "the demo is not production, and the check says so; tests/cli runs it",
    (
        "docs/production.md",
        "tonne doctor",
    ): "its exit code is the state of the demo; tests/apps/cli/test_doctor.py runs it",
    ("docs/guides/auditor.md", "tonne doctor"): "as above",
    ("docs/verify.md", "pip install"): IN_TEST_VERIFY,
    ("docs/verify.md", "tonne-verify audit"): IN_TEST_VERIFY,
    ("docs/witnesses.md", "tonne-verify witness"): "serves until it is stopped; tests/verify/test_witness.py has it",
    ("docs/supply.md", "tonne catalogue import-lots"): LOTS,
    ("docs/supply.md", "$ tonne lot invalidate"): LOTS,
    ("docs/supply.md", "tonne lot resolve"): LOTS,
    ("docs/supply.md", "$ tonne retirement import"): LOTS,
}

_COMPLETE_ORDER = """
import os, time
import httpx
headers = {"Authorization": f"Bearer {os.environ['KEY']}"}
service = httpx.Client(base_url=os.environ["BASE"], headers=headers, timeout=60)
order_id = service.post("/v1/orders/by-mass", json={"mass": {"amount": "1", "unit": "t"}}).json()["id"]
while service.get(f"/v1/orders/{order_id}/credential.json").status_code != 200:
    time.sleep(0.5)
"""
# Commands before those of a page, and code before the programs of a page ("page python").
PRELUDES = {
    # The order of the page is complete before its certificate is read.
    "docs/credentials.md": (
        'until curl -s http://localhost:8080/v1/orders/ord_…/credential.json -H "Authorization: Bearer $KEY" '
        "| grep -q evidence; do sleep 1; done"
    ),
    "docs/credentials.md python": _COMPLETE_ORDER,
    "docs/webhooks.md": "TIMESTAMP=1794737600 BODY='{}' SECRET=whsec_mine",
    "docs/webhooks.md python": (
        "import base64, datetime, hashlib, hmac\n"
        "from standardwebhooks import Webhook\n"
        "secret = 'whsec_' + base64.b64encode(bytes(32)).decode()\n"
        "body, now, signatures = b'{\"events\": []}', datetime.datetime.now(datetime.UTC), ['4f1c']\n"
        "timestamp = str(int(now.timestamp()))\n"
        "signature = Webhook(secret).sign('msg_1', now, body.decode())\n"
        "headers = {'webhook-id': 'msg_1', 'webhook-timestamp': timestamp, 'webhook-signature': signature}\n"
    ),
}
