"""Which bundles an organisation or an account buys when an order names none."""

from collections.abc import Sequence

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By, Mode, Scope
from tonne.selling.accounts import store
from tonne.selling.accounts.lookup import require_organisation
from tonne.selling.catalogue.errors import PriceUnavailable
from tonne.selling.catalogue.selection import BundleChoiceIn, resolve, storable
from tonne.selling.catalogue.store import load_catalogue


async def set_organisation_default(
    tx: Connection, organisation_id: str, mode: Mode, choices: Sequence[BundleChoiceIn], *, by: By
) -> None:
    """No choices clear the default."""
    await require_organisation(tx, organisation_id)
    selection = await _validate(tx, mode, choices)
    previous = await store.set_organisation_selection(tx, organisation_id, mode, selection)
    await audit.record(
        tx,
        organisation_id,
        "organisation.bundles_set",
        by=by,
        mode=mode,
        before={"bundle_selection": previous},
        after={"bundle_selection": selection},
    )


async def set_account_default(tx: Connection, scope: Scope, choices: Sequence[BundleChoiceIn], *, by: By) -> None:
    """No choices clear the default: the organisation's default then applies."""
    selection = await _validate(tx, scope.mode, choices)
    previous = await store.set_account_selection(tx, scope, selection)
    await audit.record(
        tx,
        scope,
        "account.bundles_set",
        by=by,
        before={"bundle_selection": previous},
        after={"bundle_selection": selection},
    )


async def _validate(tx: Connection, mode: Mode, choices: Sequence[BundleChoiceIn]) -> list[dict[str, str]] | None:
    """The selection as it is stored, validated like one that a client sends."""
    if not choices:
        return None
    catalogue = await load_catalogue(tx, mode, "")
    if catalogue is None:
        raise PriceUnavailable(f"There is no {mode} catalogue yet. Import one with `tonne catalogue import`.")
    resolve(choices, catalogue)
    return storable(choices)
