"""Forms that move money are sent twice: the first answer says what will happen, the second makes it so."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from tonne.apps.dashboard.page import DashboardPage
from tonne.apps.dashboard.viewer import Form, OperatorViewer
from tonne.platform.db.database import Connection, Database
from tonne.platform.http.route import Response
from tonne.platform.values.errors import TonneError
from tonne.platform.web.render import FIELD, see_other

T = TypeVar("T")
Work = Callable[[Connection], Awaitable[T]]


async def rehearse(database: Database, work: Work[T]) -> T:
    """Run `work` and roll it back: its result, and its errors, are those of the real run."""
    async with database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        try:
            return await work(connection)
        finally:
            await transaction.rollback()


class Wording(NamedTuple):
    """The button of a step, the name of the notice afterwards, and what will happen: sentences. The last two may be
    functions that return them for the result of the step, or of its rehearsal."""

    button: str
    notice: str | Callable[[Any], str]
    effects: Sequence[str] | Callable[[Any], Sequence[str]]


ONE_MORE = ["Another person must approve it, too: it was requested on a command line without a login."]


def approval(button: str, notice: str, effects: Callable[[Any], Sequence[str]]) -> Wording:
    """The words of an approval. If it is the first of two, they say that instead of `notice` and `effects`."""
    return Wording(
        button,
        lambda made: notice if made.approved_by else "first_approval",
        lambda made: effects(made) if made.approved_by else ONE_MORE,
    )


class Attempt(NamedTuple):
    """`result` is that of the work, or of its rehearsal if it is not made yet."""

    is_made: bool
    result: Any


class ConfirmedPage(DashboardPage, frozen=True):
    """A page with such forms."""

    async def take_step(
        self,
        viewer: OperatorViewer,
        form: Form,
        words: Wording,
        work: Work[Any],
        *,
        show_faults: Callable[[OperatorViewer, Form], Awaitable[Response]],
        back: str,
        title: str = "",
        done: str = "",
    ) -> Response:
        """Ask for the confirmation, or make the step if the form is confirmed. Errors are shown on the page before.

        The title is the button unless it is given. The step leads back unless `done` is another page.
        """
        attempt = await self.attempt(form, work)
        if attempt is None:
            return await show_faults(viewer, form)
        if attempt.is_made:
            notice = words.notice(attempt.result) if callable(words.notice) else words.notice
            return see_other(f"{done or back}?done={notice}")
        return self.layout.page(
            viewer,
            "operator_confirm.html",
            title=title or words.button,
            button=words.button,
            back=back,
            action=viewer.request.location.partition("?")[0],
            # They are sent again with the confirmation.
            fields={name: form.value(name) for name in form.names() if name != FIELD},
            effects=words.effects(attempt.result) if callable(words.effects) else words.effects,
        )

    async def attempt(self, form: Form, work: Work[Any]) -> Attempt | None:
        """Do the work if the form is confirmed, otherwise rehearse it. None if the form has faults then."""
        if form.faults:
            return None
        try:
            if not form.is_checked("confirmed"):
                return Attempt(is_made=False, result=await rehearse(self.database, work))
            result = await self.database.commit(work)
        except TonneError as error:
            form.fail("", " ".join(fault.message for fault in error.faults))
            return None
        self.notifier.notify()
        return Attempt(is_made=True, result=result)
