"""What all pages of the dashboard share: the menu, the token of forms and messages after a redirect."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tonne.apps.dashboard.menu import OPERATOR_MENU, ORGANISATION_MENU, MenuGroup, entries_for
from tonne.apps.dashboard.money_notices import MONEY_NOTICES
from tonne.apps.dashboard.viewer import Form, MemberViewer, OperatorViewer, Viewer
from tonne.platform.http.route import Response
from tonne.platform.web.render import FRAMING_POLICY, FormGuard, Renderer

# Shown once after a form was processed, chosen by `?done=` in the address: the text itself is never in the address.
NOTICES = {
    "pack_requested": "The audit pack is being made. It takes a minute for about a thousand certificates.",
    "pack_deleted": "The audit pack is deleted.",
    "webhook_changed": "The webhook is changed. Events of a request in progress are sent again.",
    "webhook_enabled": "The webhook is on. Waiting events are being sent.",
    "webhook_disabled": "The webhook is off. Events wait until you turn it on again.",
    "webhook_retried": "The next attempt starts now.",
    "webhook_rewound": "The events are being sent again.",
    "webhook_skipped": "The event is skipped. The next events of the account follow.",
    "webhook_deleted": "The webhook is deleted.",
    "invited": "The invitation is on its way.",
    "revoked": "The invitation is revoked.",
    "role": "The role is changed.",
    "target": "The target and the budget are saved.",
    "removed": "The person is no longer a member.",
    "password": "Your password is changed. All other sessions have ended.",
    "session": "The session has ended.",
    "sessions": "All other sessions have ended.",
    "key_revoked": "The key is revoked. Requests with it are refused within 5 seconds.",
    "act_as_ended": "You no longer see the dashboard of the organisation.",
    "passkey": "The passkey is added. You can use it to sign in, alone or after your password.",
    "passkey_renamed": "The passkey is renamed.",
    "passkey_removed": "The passkey is removed.",
    "token_revoked": "The token is revoked.",
    "second_factor_needed": "The operator area needs a second factor. Add a passkey or an authenticator app below.",
    "vat_check_recorded": "The check is recorded. Invoices that wait for it are issued within a minute.",
    "customer_opened": "The customer is open, and the invitation to its owner is on its way.",
    "customer_closed": "The customer is closed. Its API keys stop working within 5 seconds.",
    "customer_reopened": "The customer is open again.",
    "fee": "The fee is changed. It applies to new orders.",
    "limits": "The limits are changed. They apply within 5 seconds.",
    "mail_retried": "The mail will be sent again.",
    "mail_discarded": "The mail is discarded.",
    "admin_added": "The address gets invoices and alerts from now on.",
    "admin_removed": "The address gets no more invoices and alerts.",
    "order_cancelled": "The order is cancelled.",
    "order_reduced": "The order is reduced. See the payment for its refund.",
    "order_released": "The order is released. Its credits are allocated now.",
    "refund_requested": "The refund is requested. See the payment for its state.",
    "order_renamed": "The name on the certificate is corrected.",
    "mails_resent": "The mails are on their way.",
    "helped": "Done. This page shows what follows.",
    "unit_closed": "The unit is on the work list.",
    "lot_withdrawn": "The lot is withdrawn.",
    "lot_invalidated": "The lot is invalid. Orders without a certificate get other credits.",
    "lot_resolved": "Your decision is recorded.",
    "registry_checked": "The account is compared within seconds.",
    "registry_retried": "The request is looked up within seconds.",
    "registry_settlement_requested": "It is noted. Another person must approve it.",
    "registry_request_settled": "The request is settled.",
    "registry_settled": "The difference is settled. The lot supplies orders again.",
    "registry_agrees": "The list agrees with the books.",
    "registry_differs": "The list differs from the books: see the differences. The lots concerned are paused.",
    "price_changed": "The price is changed.",
    "picture_changed": "The picture is changed. Pages show it within seconds.",
    "picture_removed": "The picture is removed. Pages show a drawing instead.",
    "price_scheduled": "The price change is scheduled.",
    "price_cancelled": "The scheduled price is cancelled.",
    "bundle_enabled": "The bundle is on sale.",
    "bundle_disabled": "The bundle is off sale.",
    "import_discarded": "The file is discarded. Nothing was changed.",
    "ordered": "The order is placed.",
    "person_erased": "The person's data is erased. Events tell the receivers of webhooks.",
    "address": "The address is saved. Invoices that waited for it are issued within a minute.",
    "account_opened": "The client account is open.",
    "account_saved": "The account is saved.",
    "account_mix": "The default mix is saved.",
    "account_closed": "The account is closed.",
    "account_archived": "The account is archived. Nothing new can be ordered.",
    "account_unarchived": "The account takes orders again.",
    "link_created": "The link is created.",
    "link_saved": "The link is saved.",
    "page_saved": "The page is saved.",
    "page_published": "The page is public.",
    "page_withdrawn": "The page is no longer public.",
    "second_factor_off": "The authenticator app is turned off.",
    **MONEY_NOTICES,
}


class PageLayout(Struct, frozen=True):
    renderer: Renderer
    guard: FormGuard

    def page(
        self,
        viewer: Viewer,
        template: str,
        form: Form | None = None,
        *,
        has_frame: bool = False,
        **values: Any,
    ) -> Response:
        """The template sets `here`, the current entry of the menu. With faults in `form` the status is 422.

        `has_frame`: the page shows another page of ours in a frame.
        """
        token, headers = self.guard.issue(viewer.request)
        if has_frame:
            headers["Content-Security-Policy"] = FRAMING_POLICY
        form = form or Form()
        return self.renderer.page(
            viewer.request,
            template,
            is_translated=False,
            status=422 if form.faults else 200,
            headers=headers,
            form_token=token,
            faults=form.faults,
            viewer=viewer,
            menu=_menu(viewer),
            notice=NOTICES.get(viewer.request.query("done")[0] or ""),
            **values,
        )


def _menu(viewer: Viewer) -> Sequence[MenuGroup]:
    if isinstance(viewer, OperatorViewer):
        return OPERATOR_MENU
    return entries_for(ORGANISATION_MENU, viewer.may) if isinstance(viewer, MemberViewer) else ()
