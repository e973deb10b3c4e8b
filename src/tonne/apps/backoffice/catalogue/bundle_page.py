"""One bundle: its price now and later, its margin, and whether it is on sale."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from tonne.apps.backoffice.catalogue.bundle_margins import BundleMargin, margin_of, read_costs
from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Form, OperatorViewer
from tonne.platform.http.route import Response
from tonne.platform.values.amounts import DECIMALS, format_money, parse_decimal, scaled
from tonne.platform.values.context import is_id
from tonne.platform.values.errors import TonneError
from tonne.platform.web.render import see_other
from tonne.selling.catalogue.bundle_store import switch_bundle
from tonne.selling.catalogue.errors import PriceChangeConflict, PriceChangeNotFound
from tonne.selling.catalogue.imports.plan import MAX_PRICE
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.prices.apply_price_changes import PriceChange, apply_price_change, list_changes
from tonne.selling.catalogue.prices.schedule_price import MAX_AHEAD, cancel_price_change, schedule_price
from tonne.selling.catalogue.store import load_catalogue
from tonne.supply.stock.vintages import load_vintages_any_account

BUNDLE = "/catalogue/bundles/{bundle_id}"
CHANGES_SHOWN = 200


class _Shown(NamedTuple):
    catalogue: Catalogue
    margin: BundleMargin
    changes: list[PriceChange]

    @property
    def currency(self) -> str:
        return self.catalogue.currency


class BundlePage(DashboardPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={BUNDLE: self.show},
            forms={
                f"{BUNDLE}/price": self.change_price,
                f"{BUNDLE}/switch": self.switch,
                f"{BUNDLE}/cancel-price": self.cancel,
            },
            errors=(PriceChangeNotFound, PriceChangeConflict),
        )

    async def show(self, viewer: OperatorViewer) -> Response:
        return self._page(viewer, await self._find(viewer), Form())

    async def change_price(self, viewer: OperatorViewer, form: Form) -> Response:
        """At once, or from a time on."""
        shown, now = await self._find(viewer), self.clock()
        bundle = shown.margin.bundle
        price = _read_price(form, shown.currency)
        starts_at = _read_start(form, now)
        if price == bundle.unit_price_minor and starts_at is None and not form.faults:
            form.fail("price", "This is the price already.")
        if form.faults or price is None:
            return self._page(viewer, shown, form)
        if not form.is_checked("confirmed"):
            return self._ask(
                viewer,
                shown,
                "price",
                title="Schedule the price" if starts_at else "Change the price",
                effects=_price_effects(shown, price, starts_at),
                fields={"price": form.value("price"), "starts_at": form.value("starts_at")},
            )
        try:
            async with self.database.transaction() as tx:
                change = await schedule_price(
                    tx, viewer.mode, bundle.id, price, starts_at or now, by=viewer.actor.at(now)
                )
                if starts_at is None:
                    await apply_price_change(tx, change, by=viewer.actor.at(now))
        except TonneError as error:
            form.fail("", str(error))
            return self._page(viewer, shown, form)
        return see_other(f"{viewer.base}{_path(bundle.id)}?done={'price_scheduled' if starts_at else 'price_changed'}")

    async def switch(self, viewer: OperatorViewer, form: Form) -> Response:
        """Put the bundle on sale, or take it off."""
        shown = await self._find(viewer)
        bundle, enabled = shown.margin.bundle, form.value("enabled") == "1"
        if not form.is_checked("confirmed"):
            return self._ask(
                viewer,
                shown,
                "switch",
                title="Put it on sale" if enabled else "Take it off sale",
                effects=_switch_effects(shown, enabled=enabled),
                fields={"enabled": form.value("enabled")},
            )
        await self.database.commit(switch_bundle, bundle.id, enabled=enabled, by=viewer.actor.at(self.clock()))
        return see_other(f"{viewer.base}{_path(bundle.id)}?done={'bundle_enabled' if enabled else 'bundle_disabled'}")

    async def cancel(self, viewer: OperatorViewer, form: Form) -> Response:
        """Cancel a scheduled price."""
        shown = await self._find(viewer)
        change = next((each for each in shown.changes if each.id == form.value("change")), None)
        if change is None or not change.is_waiting:
            raise PriceChangeNotFound
        if not form.is_checked("confirmed"):
            price = format_money(change.unit_price_minor, shown.currency)
            effects = [f"The price does not become {price} {shown.currency} on {change.starts_at:%d %B %Y, %H:%M} UTC."]
            return self._ask(
                viewer,
                shown,
                "cancel-price",
                title="Cancel the scheduled price",
                effects=effects,
                fields={"change": change.id},
            )
        await self.database.commit(cancel_price_change, viewer.mode, change.id, by=viewer.actor.at(self.clock()))
        return see_other(f"{viewer.base}{_path(change.bundle_id)}?done=price_cancelled")

    async def _find(self, viewer: OperatorViewer) -> _Shown:
        bundle_id = viewer.request.path("bundle_id")
        if not is_id("bun", bundle_id):
            raise DashboardPageNotFound
        async with self.database.snapshot() as connection:
            vintages = await load_vintages_any_account(connection, viewer.mode)
            catalogue = await load_catalogue(connection, viewer.mode, "", vintages)
            if catalogue is None or bundle_id not in catalogue.bundles:
                raise DashboardPageNotFound
            costs = await read_costs(connection, viewer.mode)
            changes = await list_changes(connection, viewer.mode, CHANGES_SHOWN)
        margin = margin_of(catalogue.bundles[bundle_id], catalogue, costs)
        return _Shown(catalogue, margin, [change for change in changes if change.bundle_id == bundle_id])

    def _ask(
        self,
        viewer: OperatorViewer,
        shown: _Shown,
        step: str,
        *,
        title: str,
        effects: Sequence[str],
        fields: Mapping[str, str],
    ) -> Response:
        bundle = shown.margin.bundle
        return self.layout.page(
            viewer,
            "operator_supply_confirm.html",
            here="catalogue",
            title=title,
            effects=effects,
            fields=fields,
            action=f"{viewer.base}{_path(bundle.id)}/{step}",
            back=f"{viewer.base}{_path(bundle.id)}",
            back_label=bundle.name,
        )

    def _page(self, viewer: OperatorViewer, shown: _Shown, form: Form) -> Response:
        return self.layout.page(
            viewer,
            "operator_bundle.html",
            form,
            catalogue=shown.catalogue,
            margin=shown.margin,
            bundle=shown.margin.bundle,
            changes=shown.changes,
            entered=form,
        )


def _path(bundle_id: str) -> str:
    return BUNDLE.format(bundle_id=bundle_id)


def _read_price(form: Form, currency: str) -> int | None:
    """In minor units."""
    number = parse_decimal(form.value("price").replace(",", "."))
    minor = None if number is None else scaled(number, DECIMALS[currency])
    if number is None or not 0 < number <= MAX_PRICE:
        form.fail("price", "Enter a price above 0, such as 12.65.")
        return None
    if minor is None:
        form.fail("price", f"Use at most {DECIMALS[currency]} decimals.")
    return minor


def _read_start(form: Form, now: datetime) -> datetime | None:
    """None: at once."""
    text = form.value("starts_at")
    if not text:
        return None
    try:
        starts_at = datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        form.fail("starts_at", "Enter a day and a time, such as 2026-12-01T00:00.")
        return None
    if starts_at <= now:
        form.fail("starts_at", "This time is over. Leave the field empty to change the price at once.")
    elif starts_at > now + MAX_AHEAD:
        form.fail("starts_at", "Choose a time within the next two years.")
    return starts_at


def _price_effects(shown: _Shown, price: int, starts_at: datetime | None) -> list[str]:
    margin, currency = shown.margin, shown.currency
    before, after = (format_money(each, currency) for each in (margin.bundle.unit_price_minor, price))
    when = "At once" if starts_at is None else f"From {starts_at:%d %B %Y, %H:%M} UTC on"
    effects = [
        f"{when}, a tonne of {margin.bundle.name} costs {after} {currency}, before tax and fee. Now it is {before}."
    ]
    percent = margin.margin_percent(price)
    if percent is not None:
        effects.append(f"The margin on the credits in stock is then {percent} %.")
    if percent is not None and percent < 0:
        effects.append("That is less than the credits cost.")
    effects.append("Orders that were placed before keep their price.")
    if starts_at is not None:
        effects.append("Until then you can cancel it. An import of bundles.csv in the meantime does not cancel it.")
    return [*effects, "A later import of bundles.csv sets the price of the file again: change the file, too."]


def _switch_effects(shown: _Shown, *, enabled: bool) -> list[str]:
    bundle, catalogue = shown.margin.bundle, shown.catalogue
    if enabled:
        return [f"{bundle.name} can be ordered within seconds, at {_price(shown)} a tonne."]
    effects = [f"{bundle.name} cannot be ordered any more. Existing orders do not change."]
    if any(each["bundle_id"] == bundle.id for each in catalogue.default_selection or ()):
        effects.append(
            "It is part of the default selection: orders without a bundle selection then wait for a price. Import a "
            "defaults.csv without it first."
        )
    return effects


def _price(shown: _Shown) -> str:
    return f"{format_money(shown.margin.bundle.unit_price_minor, shown.currency)} {shown.currency}"
