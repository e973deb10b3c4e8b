"""A receiver of Tonne's webhooks with Django, in one file: verifies, stores, responds, handles the events afterwards.

    pip install tonne-client django uvicorn
    export WEBHOOK_SECRETS=whsec_...
    uvicorn receiver:application --port 9000
    python receiver.py handle

In a project of your own, `receive` belongs to the views, `handle_events` to a management command. Give both secrets,
separated by a space, while you rotate them.
"""

import os
import sys
import time

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from tonne_client import SqliteStore, WebhookInbox, WebhookInvalid, verify_webhook
from tonne_client.models import WebhookEvent

if not settings.configured:
    settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="unused", USE_TZ=True)  # noqa: S106
    django.setup()

SECRETS = os.environ["WEBHOOK_SECRETS"].split()
inbox = WebhookInbox(SqliteStore(os.environ.get("INBOX_FILE", "inbox.db")))


# The signature replaces the CSRF token.
@csrf_exempt
@require_POST
def receive(request: HttpRequest) -> HttpResponse:
    try:
        # The raw body: parsing and writing it again would change the bytes that were signed.
        events = verify_webhook(request.body, request.headers, SECRETS)
    except WebhookInvalid as error:
        return HttpResponse(str(error), status=401)
    inbox.receive(events)
    return HttpResponse(status=204)


def handle(event: WebhookEvent) -> None:
    """Replace this by what your system does. It may be called twice for an event, if the process dies meanwhile."""
    if event.event_type.startswith("order."):
        print(event.event_type, event.to_dict()["data"]["order"]["id"], flush=True)


def handle_events() -> None:
    while True:
        try:
            inbox.process(handle)
        except Exception as error:  # noqa: BLE001 - the event is tried again
            print(f"{error!r}: {error.__notes__}", flush=True)
        time.sleep(0.2)


urlpatterns = [path("tonne", receive)]
application = get_asgi_application()

if __name__ == "__main__":
    if sys.argv[1:] != ["handle"]:
        sys.exit("usage: python receiver.py handle")
    handle_events()
