"""The service under test, called over HTTP with an API key."""

import random
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from tonne_conformance.expect import expect, fail

TIMEOUT_S = 40.0
# An order in test mode completes within seconds.
WITHIN_S = 60.0
POLL_S = 0.05
# For how long a request is repeated that came too fast.
REPEAT_FOR_S = 120.0
Made = TypeVar("Made")


class Document(dict[str, Any]):
    """A JSON object with the id of the request that returned it."""

    request_id: str = ""


class Answer:
    """A response. `document` is the JSON of its body, None if it has none."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.content = response.content
        self.request_id = str(response.headers.get("x-request-id") or "")
        try:
            self.document: Any = response.json()
        except ValueError:
            self.document = None

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def shown(self) -> str:
        return f"HTTP {self.status} {self.content[:400].decode(errors='replace')}"

    def object(self) -> Document:
        """The object of a success; otherwise the check fails."""
        expect(self.ok, "a 2xx status", self.shown, self)
        if not isinstance(self.document, dict):
            fail("a JSON object", self.shown, self)
        document = Document(self.document)
        document.request_id = self.request_id
        return document

    def refused(self) -> "Answer":
        """The request was understood and refused: neither a success nor an error of the server."""
        is_refused = 400 <= self.status < 500 and self.status != 429
        expect(is_refused, "a 4xx status other than 429", self.shown, self)
        return self


class Reader:
    """Reads only: this is all that the suite does with a live key."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url.rstrip("/")
        self._http = httpx.Client(timeout=TIMEOUT_S, headers={"Authorization": f"Bearer {key}"})

    def get(
        self, path: str, params: Mapping[str, str] | None = None, *, headers: Mapping[str, str] | None = None
    ) -> Answer:
        return self._send("GET", path, params=params, headers=headers)

    def close(self) -> None:
        self._http.close()

    def _send(self, method: str, path: str, **given: Any) -> Answer:
        """Repeated as often as the service says that it came too fast."""
        return self._send_with(self._http, method, path, **given)

    def _send_with(self, http: httpx.Client, method: str, path: str, **given: Any) -> Answer:
        url = path if path.startswith(("http://", "https://")) else f"{self.url}{path}"
        deadline = time.monotonic() + REPEAT_FOR_S
        while (response := http.request(method, url, **given)).status_code == 429 and time.monotonic() < deadline:
            # Requests that wait for the same limit do not all come back at once.
            time.sleep(min(float(response.headers.get("retry-after") or 1), 10) * random.uniform(1, 1.5))  # noqa: S311
        return Answer(response)


class Service(Reader):
    """Everything that the checks do in test mode."""

    def __init__(self, url: str, key: str, *, brand: str = "Service", redirect_url: str = "") -> None:
        super().__init__(url, key)
        self.brand = brand
        self.redirect_url = redirect_url
        # A run never meets the orders of another one.
        self.run_id = secrets.token_hex(6)
        self._webhook_ids: list[str] = []
        self._closing = False
        self._lock = threading.Lock()
        self._shared: dict[str, tuple[threading.Lock, list[Any]]] = {}

    def shared(self, name: str, make: Callable[[], Made]) -> Made:
        """Made once in a run, by the first check that needs it. Its failure is the failure of all of them."""
        with self._lock:
            lock, made = self._shared.setdefault(name, (threading.Lock(), []))
        with lock:
            if not made:
                try:
                    made.append((make(), None))
                except Exception as error:  # noqa: BLE001 - raised again below, for every check
                    made.append((None, error))
            value, failure = made[0]
        if failure is not None:
            raise failure
        found: Made = value
        return found

    def post(self, path: str, body: object = None, *, headers: Mapping[str, str] | None = None) -> Answer:
        return self._send("POST", path, json=body, headers=headers)

    def put(self, path: str, body: object, *, headers: Mapping[str, str] | None = None) -> Answer:
        return self._send("PUT", path, json=body, headers=headers)

    def post_raw(self, path: str, content: bytes, content_type: str) -> Answer:
        return self._send("POST", path, content=content, headers={"Content-Type": content_type})

    def send_without_key(self, method: str, path: str, authorization: str | None = None) -> Answer:
        """With this Authorization header, or with none."""
        headers = {} if authorization is None else {"Authorization": authorization}
        with httpx.Client(timeout=TIMEOUT_S, headers=headers) as http:
            return self._send_with(http, method, path, json={} if method == "POST" else None)

    def key(self, name: str) -> str:
        """An idempotency key of this run."""
        return f"conformance-{self.run_id}-{name}"

    def acting_as(self, account_id: str | None) -> dict[str, str]:
        return {} if account_id is None else {f"{self.brand}-Account": account_id}

    def estimate(self, amount: str = "1500", unit: str = "kg", account: str | None = None) -> str:
        """The id of a new emission calculation."""
        body = {"mass": {"amount": amount, "unit": unit}}
        return str(self.post("/estimates", body, headers=self.acting_as(account)).object()["id"])

    def place(self, key: str, *, estimate_id: str | None = None, account: str | None = None, **fields: Any) -> Document:
        """An order by estimate, with the idempotency key of this name."""
        body = {"estimate_id": estimate_id or self.estimate(account=account), "idempotency_key": self.key(key)}
        return self.post("/orders/by-estimate", body | fields, headers=self.acting_as(account)).object()

    def find(self, idempotency_key: str, account: str | None = None) -> Answer:
        path = f"/orders/by-idempotency-key/{quote(idempotency_key, safe='')}"
        return self.get(path, headers=self.acting_as(account))

    def wait_for(self, idempotency_key: str, *statuses: str, account: str | None = None) -> Document:
        """The order as soon as it has one of these statuses."""
        deadline = time.monotonic() + WITHIN_S
        while True:
            order = self.find(idempotency_key, account).object()
            if order.get("status") in statuses:
                return order
            if time.monotonic() > deadline:
                fail(f"the status {' or '.join(statuses)} within {WITHIN_S:.0f} s", order.get("status"), order)
            time.sleep(POLL_S)

    def register(self, body: object) -> Answer:
        """Ask for a webhook, which is deleted at the end of the run."""
        with self._lock:
            expect(not self._closing, "a run that has not ended", "the end of the run")
            answer = self.post("/webhooks", body)
            if answer.ok and isinstance(answer.document, dict):
                self._webhook_ids.append(str(answer.document.get("id")))
        return answer

    def delete_webhooks(self) -> list[str]:
        """Delete what `register` made. Returns the ids of those that are left."""
        with self._lock:
            self._closing = True
            left = []
            for webhook_id in self._webhook_ids:
                try:
                    answer = self._send("DELETE", f"/webhooks/{webhook_id}")
                except httpx.HTTPError:
                    left.append(webhook_id)
                    continue
                if not answer.ok and answer.status != 404:
                    left.append(webhook_id)
            self._webhook_ids = left
        return left
