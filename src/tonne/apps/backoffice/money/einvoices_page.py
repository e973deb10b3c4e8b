"""Electronic invoices that were sent over a network, and what their receivers answered."""

from tonne.apps.backoffice.money.confirmed_step import ConfirmedPage, Wording
from tonne.apps.dashboard.page import OperatorSection
from tonne.apps.dashboard.viewer import Form, OperatorViewer
from tonne.money.invoices.einvoices.delivery_store import list_deliveries_any_account
from tonne.money.invoices.einvoices.network import NetworkAnswer, NetworkOutcome
from tonne.money.invoices.einvoices.send_einvoices import record_answer
from tonne.platform.http.route import Response

LIST, ANSWER = "/documents/deliveries", "/documents/deliveries/answer"
SHOWN = 200
MAX_REASON = 500
_FIELDS = ("number", "answer", "reason")


class EInvoicesPage(ConfirmedPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(pages={LIST: self.show}, forms={ANSWER: self.answer})

    async def answer(self, viewer: OperatorViewer, form: Form) -> Response:
        """Record what the network or the receiver said."""
        number, by = form.text("number", "Choose an invoice.", longest=50), viewer.actor.at(self.clock())
        is_refused = form.value("answer") == NetworkOutcome.REFUSED
        reason = form.text("reason", "Say why, as they did.", longest=MAX_REASON) if is_refused else None
        outcome = NetworkOutcome.REFUSED if is_refused else NetworkOutcome.ACCEPTED
        effects = [f"{number} counts as {outcome}. The document stays as it is."]
        words = Wording("Record the answer", "einvoice_answered", effects)
        return await self.take_step(
            viewer,
            form,
            words,
            lambda tx: record_answer(tx, number, NetworkAnswer(outcome, reason), by=by),
            show_faults=self.show,
            back=f"{viewer.base}{LIST}",
            title=f"Record the answer: {number}",
        )

    async def show(self, viewer: OperatorViewer, form: Form | None = None) -> Response:
        form = form or Form()
        [everything] = viewer.request.query("all")
        found = await self.database.run(
            list_deliveries_any_account, SHOWN, with_accepted=everything is not None, mode=viewer.mode
        )
        return self.layout.page(
            viewer,
            "operator_deliveries.html",
            form,
            deliveries=found,
            everything=everything is not None,
            answerable=[(each.number, each.number) for each in found if each.state not in {"due", "accepted"}],
            entered={name: form.value(name) for name in _FIELDS},
        )
