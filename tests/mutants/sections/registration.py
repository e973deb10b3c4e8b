"""Sections 2.6, 4.5, 6.1 and 8: registering a webhook."""

from tests.mutants.mutant import Mutant
from tonne_conformance.sections.registration import FIELDS

SCHEMAS = "channels/webhooks/schemas.py"
REGISTER = "channels/webhooks/register.py"
URLS = "platform/values/urls.py"
RANDOM = "base64.b64encode(secrets.token_bytes(KEY_BYTES))"
HTTPS = 'HTTPS = ("https",)'
HTTP_TOO = 'HTTPS = ("https", "http")'


def _out(name: str, old: str, new: str, check: str) -> Mutant:
    return Mutant(name, SCHEMAS, old, new, check)


MUTANTS = [
    *(
        _out(
            f"a webhook without {name}",
            "class WebhookOut(msgspec.Struct):",
            f'class WebhookOut(msgspec.Struct, rename={{"{name}": "{name}_"}}):',
            f"registration.each_field_of_a_webhook_is_there.{name}",
        )
        for name in FIELDS
    ),
    _out(
        "another format of the creation of a webhook",
        "created_at=to_wire(webhook.created_at),",
        "created_at=to_wire(webhook.created_at)[:-1],",
        "registration.each_field_of_a_webhook_has_its_type.created_at",
    ),
    _out(
        "the accounts of a webhook are null",
        "account_ids=list(webhook.account_ids),",
        "account_ids=list(webhook.account_ids) or None,",
        "registration.each_field_of_a_webhook_has_its_type.account_ids",
    ),
    _out(
        "the mode of a webhook is in upper case",
        "account_type=webhook.mode,",
        "account_type=webhook.mode.upper(),",
        "registration.each_field_of_a_webhook_has_its_type.account_type",
    ),
    _out(
        "every webhook is of live mode",
        "account_type=webhook.mode,",
        "account_type=Mode.LIVE,",
        "registration.a_test_key_registers_in_test_mode",
    ),
    _out(
        "the end of the secret only",
        'secret=secret or f"whsec_...{webhook.secret_last_four}",',
        'secret=f"whsec_...{webhook.secret_last_four}",',
        "registration.the_secret_in_the_response_signs_the_requests",
    ),
    Mutant(
        "one secret for all",
        "channels/webhooks/sending/signing.py",
        RANDOM,
        "base64.b64encode(bytes(KEY_BYTES))",
        "registration.two_webhooks_have_two_secrets",
    ),
    Mutant(
        "the secret of another webhook matches",
        "channels/webhooks/sending/signing.py",
        RANDOM,
        "base64.b64encode(bytes(KEY_BYTES))",
        "signatures.the_secret_of_another_webhook_does_not_match",
    ),
    Mutant(
        "one id for all webhooks",
        REGISTER,
        'id=new_id("wh"),',
        'id="wh_" + "0" * 26,',
        "registration.two_webhooks_have_two_ids",
    ),
    Mutant(
        "another address",
        REGISTER,
        '        id=new_id("wh"),\n',
        '        id=new_id("wh"),\n        url=f"{requested.url}/",\n',
        "registration.the_url_is_the_registered_one",
    ),
    Mutant("a disabled webhook", REGISTER, "enabled=True,", "enabled=False,", "registration.a_new_webhook_is_enabled"),
    _out(
        "an address is not required",
        "    url: _Url\n    account_ids:",
        '    url: _Url = "https://127.0.0.1:9/"\n    account_ids:',
        "registration.each_wrong_url_is_refused.missing",
    ),
    Mutant("receivers without TLS", URLS, HTTPS, HTTP_TOO, "registration.each_other_scheme_is_refused.http"),
    Mutant("a plain receiver", URLS, HTTPS, HTTP_TOO, "registration.a_plain_receiver_is_refused"),
    Mutant(
        "only one port",
        "channels/webhooks/sending/addresses.py",
        "if self.ports and (url.port or 443) not in self.ports:",
        "if (url.port or 443) != 443:",
        "registration.an_https_receiver_is_accepted",
    ),
    Mutant(
        "a live key sees webhooks of test mode",
        "channels/webhooks/registration_store.py",
        'FROM webhooks WHERE organisation_id = $1 AND mode = $2 AND id = $3 AND deleted_at IS NULL\n"""  # noqa',
        'FROM webhooks WHERE organisation_id = $1 AND $2 <> \'\' AND id = $3 AND deleted_at IS NULL\n"""  # noqa',
        "modes.a_webhook_of_test_mode_is_not_one_of_live_mode",
    ),
    Mutant(
        "modes are mixed in lists",
        "selling/orders/read_store.py",
        "WHERE account_id = $1 AND (created_at, id) < ($2, $3)\n",
        "WHERE $1 <> '' AND (created_at, id) < ($2, $3)\n",
        "modes.the_two_lists_have_no_order_in_common",
    ),
]
