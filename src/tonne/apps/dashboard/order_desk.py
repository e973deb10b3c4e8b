"""The page of one order and its forms, shared by the pages of organisations and of the operator.

The callers have looked up the scope of the order: with the organisation of the member, or for the operator among all.
"""

import secrets
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from tonne.apps.dashboard.page import DashboardPage
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Form, MemberViewer, OperatorViewer, existing
from tonne.apps.lookup.order_actions import HelperStep, OrderActions, RefundForm, helper_steps
from tonne.apps.lookup.order_text import HOLDS
from tonne.apps.lookup.order_view import OrderView, load_view
from tonne.channels.checkout.order_pages.resend_order import OrderMail
from tonne.money.invoices.originals.originals import Originals
from tonne.money.invoices.store import find_invoice
from tonne.money.receipts.compose import payer_of
from tonne.money.refunds.model import MAX_REASON
from tonne.money.refunds.request_refund import parse_amount
from tonne.platform.documents.mail.send_mail import is_mail_address
from tonne.platform.http.errors import RateLimited, RouteNotFound
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.route import Response
from tonne.platform.values.amounts import MassUnit, format_money, parse_decimal, to_grams
from tonne.platform.values.context import Scope, is_id
from tonne.platform.values.errors import TonneError
from tonne.platform.web.render import see_other
from tonne.selling.orders.model import Beneficiary, BeneficiaryKind, OrderStatus, PaymentState
from tonne.selling.users.model import Right
from tonne.supply.certificates.credentials.issue_credential import RenderCertificate
from tonne.supply.certificates.store import list_of_order, normal_number

OrderViewer = MemberViewer | OperatorViewer
V = TypeVar("V", MemberViewer, OperatorViewer)
DeskPage = Callable[[OrderViewer, Scope], Awaitable[Response]]
DeskForm = Callable[[OrderViewer, Scope, Form], Awaitable[Response]]
# The scope of an order, if the viewer may see it.
FindScope = Callable[[V, str], Awaitable[Scope | None]]
ONE = "/orders/{order_id}"
CANCELLABLE = (OrderStatus.RECEIVED, OrderStatus.PLACED, OrderStatus.PAID)
# Mails go to customers: per organisation 20 at once, then one every minute.
MAILS = 20
MAILS_PER_S = 1 / 60
LIFE = "order_life.html"
CANCEL, REDUCE = "order_cancel.html", "order_reduce.html"
RESEND, RENAME = "order_resend.html", "order_rename.html"
ERRORS: tuple[type[TonneError], ...] = (RateLimited, RouteNotFound)
_TOO_MANY_MAILS = "Too many mails. Wait a few minutes, then try again."
_WHY = "Say why: the reason is in the audit log, and on the credit note if there is one."


class OrderDesk(DashboardPage, frozen=True):
    """`mails` limits how many are sent again."""

    actions: OrderActions
    certificates: RenderCertificate
    originals: Originals
    mails: TokenBuckets

    def pages(self, find: FindScope[V]) -> dict[str, tuple[Callable[[V], Awaitable[Response]], Right]]:
        """With the right that a member needs."""

        def with_scope(page: DeskPage) -> Callable[[V], Awaitable[Response]]:
            async def show(viewer: V) -> Response:
                return await page(viewer, await _require_scope(viewer, find))

            return show

        pages: dict[str, tuple[DeskPage, Right]] = {
            ONE: (self.show, Right.VIEW),
            f"{ONE}/cancel": (partial(self._page, template=CANCEL, reason=""), Right.MONEY),
            f"{ONE}/reduce": (partial(self._page, template=REDUCE, quantity="", reason=""), Right.MONEY),
            f"{ONE}/refund": (self.show_refund, Right.MONEY),
            f"{ONE}/mails": (partial(self._page, template=RESEND, email=None), Right.MONEY),
            f"{ONE}/name": (partial(self._page, template=RENAME, name=None, is_person=None, reason=""), Right.MONEY),
            f"{ONE}/certificate.pdf": (self.certificate, Right.VIEW),
            f"{ONE}/invoice.pdf": (self.invoice, Right.VIEW),
        }
        return {path: (with_scope(page), right) for path, (page, right) in pages.items()}

    def forms(self, find: FindScope[V]) -> dict[str, tuple[Callable[[V, Form], Awaitable[Response]], Right]]:
        def with_scope(form: DeskForm) -> Callable[[V, Form], Awaitable[Response]]:
            async def submit(viewer: V, sent: Form) -> Response:
                return await form(viewer, await _require_scope(viewer, find), sent)

            return submit

        forms: dict[str, tuple[DeskForm, Right]] = {
            f"{ONE}/cancel": (self.cancel, Right.MONEY),
            f"{ONE}/reduce": (self.reduce, Right.MONEY),
            f"{ONE}/release": (self.release, Right.MONEY),
            f"{ONE}/refund": (self.refund, Right.MONEY),
            f"{ONE}/mails": (self.resend, Right.MONEY),
            f"{ONE}/name": (self.rename, Right.MONEY),
            f"{ONE}/test-helpers/{{step}}": (self.help, Right.TEST_KEYS),
        }
        return {path: (with_scope(form), right) for path, (form, right) in forms.items()}

    async def show(self, viewer: OrderViewer, scope: Scope, form: Form | None = None) -> Response:
        return await self._page(viewer, scope, LIFE, form)

    async def cancel(self, viewer: OrderViewer, scope: Scope, form: Form) -> Response:
        order_id = viewer.request.path("order_id")
        reason = form.text("reason", _WHY, longest=MAX_REASON)
        if not form.faults:
            with form.catch():
                await self.actions.cancel(
                    scope,
                    order_id,
                    reason=reason,
                    refund=form.is_checked("refund"),
                    actor=viewer.actor,
                    is_operator=_is_operator(viewer),
                )
                return see_other(f"{viewer.base}/orders/{order_id}?done=order_cancelled")
        return await self._page(viewer, scope, CANCEL, form, reason=reason)

    async def reduce(self, viewer: OrderViewer, scope: Scope, form: Form) -> Response:
        order_id, quantity = viewer.request.path("order_id"), form.value("quantity")
        reason = form.text("reason", _WHY, longest=MAX_REASON)
        amount = parse_decimal(quantity)
        if amount is None:
            form.fail("quantity", "Enter the new quantity in tonnes, such as 2.5.")
        elif not form.faults:
            with form.catch():
                await self.actions.reduce(scope, order_id, to_grams(amount, MassUnit.T), reason, actor=viewer.actor)
                return see_other(f"{viewer.base}/orders/{order_id}?done=order_reduced")
        return await self._page(viewer, scope, REDUCE, form, quantity=quantity, reason=reason)

    async def release(self, viewer: OrderViewer, scope: Scope, form: Form) -> Response:
        order_id = viewer.request.path("order_id")
        with form.catch():
            await self.actions.release(scope, order_id, actor=viewer.actor)
        if form.faults:
            return await self.show(viewer, scope, form)
        return see_other(f"{viewer.base}/orders/{order_id}?done=order_released")

    async def show_refund(self, viewer: OrderViewer, scope: Scope) -> Response:
        return await self._page(
            viewer, scope, "order_refund.html", amount=None, reason="", key=f"dash_{secrets.token_hex(16)}"
        )

    async def refund(self, viewer: OrderViewer, scope: Scope, form: Form) -> Response:
        order_id = viewer.request.path("order_id")
        amount, key = form.value("amount"), form.value("key")
        reason = form.text("reason", _WHY, longest=MAX_REASON)
        view = await self._view(viewer, scope)
        with form.catch():
            minor = parse_amount(amount, view.order.currency)
        if not key.startswith("dash_") or len(key) > 100:
            form.fail("", "The page has expired. Reload it and try again.")
        if not form.faults:
            asked = RefundForm(minor, reason, key)
            with form.catch():
                await self.actions.refund(scope, order_id, asked, actor=viewer.actor, is_operator=_is_operator(viewer))
                return see_other(f"{viewer.base}/orders/{order_id}?done=refund_requested")
        values = {"amount": amount, "reason": reason, "key": key}
        return await self._page(viewer, scope, "order_refund.html", form, **values)

    async def resend(self, viewer: OrderViewer, scope: Scope, form: Form) -> Response:
        order_id = viewer.request.path("order_id")
        mails = [mail for mail in OrderMail if form.is_checked(mail)]
        if not mails:
            form.fail("mails", "Choose at least one mail.")
        view, email = await self._view(viewer, scope), form.value("email")
        is_new = _is_operator(viewer) and bool(email) and email != view.order.email
        if is_new and not is_mail_address(email):
            form.fail("email", "Enter an e-mail address, such as ann@example.com.")
        if not form.faults:
            with form.catch():
                self.mails.require(scope.organisation_id, message=_TOO_MANY_MAILS)
                await self.actions.resend(scope, order_id, mails, email=email if is_new else None, actor=viewer.actor)
                return see_other(f"{viewer.base}/orders/{order_id}?done=mails_resent")
        return await self._page(viewer, scope, RESEND, form, email=email)

    async def rename(self, viewer: OrderViewer, scope: Scope, form: Form) -> Response:
        order_id = viewer.request.path("order_id")
        name = form.text("name", "Enter the name for the certificate.")
        reason = form.text("reason", "Say why: the reason is printed on a new certificate.", longest=MAX_REASON)
        is_person = form.is_checked("person")
        if not form.faults:
            beneficiary = Beneficiary(name, BeneficiaryKind.PERSON if is_person else BeneficiaryKind.ORGANISATION)
            with form.catch():
                await self.actions.rename(scope, order_id, beneficiary, reason=reason, actor=viewer.actor)
                return see_other(f"{viewer.base}/orders/{order_id}?done=order_renamed")
        values = {"name": name, "is_person": is_person, "reason": reason}
        return await self._page(viewer, scope, RENAME, form, **values)

    async def help(self, viewer: OrderViewer, scope: Scope, _: Form) -> Response:
        """A test helper. Raises RouteNotFound in live mode."""
        order_id, form = viewer.request.path("order_id"), Form()
        step = viewer.request.path("step")
        if step not in set(HelperStep):
            raise DashboardPageNotFound
        try:
            await self.actions.help(scope, order_id, HelperStep(step), actor=viewer.actor)
        except RouteNotFound:
            raise DashboardPageNotFound from None
        except TonneError as error:
            form.fail_with(error)
            return await self.show(viewer, scope, form)
        return see_other(f"{viewer.base}/orders/{order_id}?done=helped")

    async def certificate(self, viewer: OrderViewer, scope: Scope) -> Response:
        """The current certificate as a PDF, or that with `number`."""
        (number,) = viewer.request.query("number")
        found = await self.database.run(list_of_order, scope, viewer.request.path("order_id"))
        requested = [each for each in found if number is None or each.record.number == normal_number(number)]
        if not requested:
            raise DashboardPageNotFound
        record = requested[0].record
        return _private(await self.certificates.answer(record))

    async def invoice(self, viewer: OrderViewer, scope: Scope) -> Response:
        async with self.database.connection() as connection:
            invoice = existing(await find_invoice(connection, scope, viewer.request.path("order_id")))
        pdf = (await self.originals.pdf(invoice)).read()
        headers = {"Content-Disposition": f'inline; filename="{invoice.in_force.reference}.pdf"'}
        return _private(Response(pdf, 200, b"application/pdf", headers))

    async def _view(self, viewer: OrderViewer, scope: Scope, *, with_life: bool = False) -> OrderView:
        return await self.find(
            load_view,
            scope,
            viewer.request.path("order_id"),
            settings=self.settings,
            now=self.clock(),
            for_operator=_is_operator(viewer),
            with_life=with_life,
        )

    async def _page(
        self,
        viewer: OrderViewer,
        scope: Scope,
        template: str,
        form: Form | None = None,
        **values: Any,
    ) -> Response:
        view = await self._view(viewer, scope, with_life=template == LIFE)
        shown = {
            "layout": "operator.html" if _is_operator(viewer) else "organisation.html",
            "is_operator": _is_operator(viewer),
            "view": view,
            "order": view.order,
            "holds": HOLDS,
            **_allowed(viewer, view, self.clock()),
            **values,
        }
        return self.layout.page(viewer, template, form, here="orders", **shown)


async def _require_scope(viewer: V, find: FindScope[V]) -> Scope:
    order_id = viewer.request.path("order_id")
    return existing(await find(viewer, order_id) if is_id("ord", order_id) else None)


def _allowed(viewer: OrderViewer, view: OrderView, now: datetime) -> dict[str, Any]:
    """Which buttons the page shows."""
    order, invoice = view.order, view.facts.invoice
    has_money = _may(viewer, Right.MONEY)
    mails = {
        OrderMail.RECEIPT: order.payment_state is not PaymentState.UNPAID and payer_of(order) is not None,
        OrderMail.CERTIFICATE: order.status is OrderStatus.COMPLETE and order.email is not None,
        OrderMail.INVOICE: invoice is not None and (not invoice.is_prepaid or order.email is None),
    }
    may_refund = has_money and (view.allows_refunds or _is_operator(viewer))
    refundable, is_waiting = view.money.refundable_minor, order.is_in_window(now)
    return {
        "may_cancel": has_money
        and order.status in CANCELLABLE
        and (order.status is not OrderStatus.PAID or may_refund or is_waiting),
        "may_reduce": has_money and is_waiting and not order.is_paid_at_checkout,
        "may_release": has_money and is_waiting,
        "may_refund": may_refund and refundable > 0,
        "refundable_minor": refundable,
        "refundable": format_money(refundable, order.currency),
        "mails": [mail for mail, is_possible in mails.items() if is_possible],
        "may_rename": has_money and order.status not in {OrderStatus.CANCELLED, OrderStatus.FAILED},
        "may_resend": has_money and any(mails.values()),
        "steps": helper_steps(order, is_billed=invoice is not None) if _may(viewer, Right.TEST_KEYS) else [],
    }


def _is_operator(viewer: OrderViewer) -> bool:
    return isinstance(viewer, OperatorViewer)


def _may(viewer: OrderViewer, right: Right) -> bool:
    return isinstance(viewer, OperatorViewer) or viewer.may(right)


def _private(response: Response) -> Response:
    response.headers |= {"Cache-Control": "no-store"}
    return response
