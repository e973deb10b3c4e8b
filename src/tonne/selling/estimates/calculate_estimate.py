"""Calculate and store an estimate, once per idempotency key, or a new version of one; and what offsetting costs."""

from typing import Any

import msgspec

from tonne.platform.db.database import Database
from tonne.platform.http.client_fields import idempotency_of, metadata_text
from tonne.platform.http.errors import refusal_out
from tonne.platform.http.json_body import Document, decode_json, read
from tonne.platform.process.cost import in_thread
from tonne.platform.values.context import Clock, Scope, new_id, replace
from tonne.platform.values.errors import TonneError
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.catalogue.errors import QuantityInvalid
from tonne.selling.catalogue.prices.price import PriceRequest, price, price_for_display
from tonne.selling.catalogue.prices.quantity_unit import cut_quantity
from tonne.selling.catalogue.schemas import quote_out
from tonne.selling.catalogue.selection import resolve
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.estimates import calculated_store as store
from tonne.selling.estimates.calculated import (
    Calculated,
    CalculatedEstimate,
    EstimateKind,
    in_unit,
    mass_out,
    require_mass,
)
from tonne.selling.estimates.calculated_schemas import CommonIn, QuoteOptionsIn
from tonne.selling.estimates.errors import EstimateNotFound, IdempotencyKeyTaken
from tonne.selling.estimates.factors.model import FactorSet
from tonne.selling.estimates.factors.schemas import factor_out
from tonne.selling.estimates.factors.snapshot import Factors

_OPTIONS = ("bundle_selection", "quantity_trunc")


class QuoteEstimate:
    def __init__(self, catalogues: Catalogues, directory: AccountDirectory) -> None:
        self._catalogues = catalogues
        self._directory = directory

    async def check(self, scope: Scope, body: CommonIn) -> None:
        """Raises an error for a selection that is not valid now."""
        if body.bundle_selection is not None:
            resolve(body.bundle_selection, await self._catalogues.current(scope.mode))

    async def quote(self, estimate: CalculatedEstimate) -> msgspec.Raw:
        """A quote, or `{error, errors}` while there is no price."""
        scope = estimate.scope
        terms, catalogue = await self._directory.terms_of(scope), await self._catalogues.current(scope.mode)
        options = _options(estimate)
        grams = cut_quantity(estimate.mass_grams, options.quantity_trunc)
        request = PriceRequest(mass_grams=grams, choices=options.bundle_selection)
        try:
            if grams == 0:
                raise QuantityInvalid(
                    f"The estimate is less than one {options.quantity_trunc}. Use a smaller unit for quantity_trunc."
                )
            priced = price_for_display(request, terms, catalogue)
            if priced is None:
                # It says why there is no price.
                priced = price(request, terms, catalogue)
        except TonneError as error:
            return msgspec.Raw(msgspec.json.encode(refusal_out(error.faults)))
        return msgspec.Raw(msgspec.json.encode(quote_out(priced, request, terms, estimate_id=estimate.id)))


def _options(estimate: CalculatedEstimate) -> QuoteOptionsIn:
    if not any(f'"{name}"' in estimate.request for name in _OPTIONS):
        return QuoteOptionsIn()
    raw = estimate.request.encode()
    members = decode_json(raw).members
    return read(Document(raw, {name: members[name] for name in _OPTIONS if name in members}), QuoteOptionsIn)


# Ids that Tonne gives as keys to estimates that came without one.
AUTO_KEY = "auto"


class CalculateEstimate:
    """All kinds of calculated estimates: new ones, new versions, annotations."""

    def __init__(self, database: Database, factors: Factors, quotes: QuoteEstimate, clock: Clock) -> None:
        self._database = database
        self._factors = factors
        self._quotes = quotes
        self._clock = clock
        self._prepared: set[str] = set()

    async def create(
        self, scope: Scope, kind: EstimateKind[Any], document: Document
    ) -> tuple[CalculatedEstimate, bool]:
        """The estimate, and whether it is new. Raises IdempotencyKeyTaken if the key belongs to another request."""
        idempotency = idempotency_of(f"estimate {kind.name}", document)
        try:
            estimate = await self._compose(scope, kind, document)
        except TonneError:
            # A used key is answered with the original, whatever has changed since.
            if idempotency.key is None or not (original := await self._original(scope, *idempotency)):
                raise
            return original, False
        async with self._database.connection() as connection:
            if await store.insert_calculated(connection, estimate, idempotency.digest):
                return estimate, True
        original = await self._original(scope, estimate.idempotency_key, idempotency.digest)
        if original is None:
            raise IdempotencyKeyTaken(field="idempotency_key")
        return original, False

    async def find(
        self, scope: Scope, kind: EstimateKind[Any], estimate_id: str, version: int | None = None
    ) -> CalculatedEstimate | None:
        return await self._database.run(store.find_calculated, scope, kind.name, estimate_id, version)

    async def replace(
        self, scope: Scope, kind: EstimateKind[Any], estimate_id: str, document: Document
    ) -> CalculatedEstimate:
        """A new version, or the current one if nothing would change, so that a PUT can be repeated."""
        current = await self.find(scope, kind, estimate_id)
        if current is None:
            raise EstimateNotFound
        made = await self._compose(scope, kind, document)
        key = current.idempotency_key if made.idempotency_key.startswith(f"{AUTO_KEY}_") else made.idempotency_key
        changed = replace(
            made, id=current.id, version=current.version, idempotency_key=key, created_at=current.created_at
        )
        if replace(changed, calculated_at=current.calculated_at) == current:
            return current
        digest = idempotency_of(f"estimate {kind.name}", document).digest
        version = await self._database.run(store.replace_calculated, changed, digest)
        if version is None:
            raise EstimateNotFound
        return replace(changed, version=version)

    async def annotate(
        self, scope: Scope, kind: EstimateKind[Any], estimate_id: str, document: Document
    ) -> CalculatedEstimate:
        """Changes only what was sent; null removes a time."""
        names, current = kind.annotations, await self.find(scope, kind, estimate_id)
        if current is None or names is None or names.request is None:
            raise EstimateNotFound
        body: msgspec.Struct = read(document, names.request)
        sent = document.members
        changed = replace(
            current,
            is_actual=getattr(body, names.is_actual) if names.is_actual in sent else current.is_actual,
            occurred_at=getattr(body, names.occurred_at) if names.occurred_at in sent else current.occurred_at,
            metadata=metadata_text(document) if "metadata" in sent else current.metadata,
            idempotency_key=getattr(body, "idempotency_key", None) or current.idempotency_key,
        )
        await self._database.run(store.annotate, changed)
        return changed

    async def _original(self, scope: Scope, key: str | None, digest: bytes) -> CalculatedEstimate | None:
        """The estimate that the same request has created. Raises IdempotencyKeyTaken if another one did."""
        found = await self._database.run(store.find_by_used_key, scope, key or "")
        if found is not None and found[1] != digest:
            raise IdempotencyKeyTaken(field="idempotency_key")
        return None if found is None else found[0]

    async def _compose(self, scope: Scope, kind: EstimateKind[Any], document: Document) -> CalculatedEstimate:
        body: CommonIn = read(document, kind.request)
        metadata = metadata_text(document)
        # Also validates the selection: a client learns of a mistake at once.
        await self._quotes.check(scope, body)
        calculated = await self._calculate(kind, body, await self._factors.current())
        names = kind.annotations
        answer = calculated.answer
        if body.estimate_mass_unit is not None:
            answer = in_unit({"mass": mass_out(calculated.mass_grams), **answer}, body.estimate_mass_unit)
        result = {
            **answer,
            "explain": calculated.explain,
            "emission_factors": [factor_out(factor) for factor in calculated.factors],
        }
        now = self._clock()
        return CalculatedEstimate(
            scope=scope,
            id=new_id("est"),
            kind=kind.name,
            version=1,
            idempotency_key=body.idempotency_key or new_id(AUTO_KEY),
            mass_grams=require_mass(calculated.mass_grams),
            name=body.name,
            metadata=metadata,
            is_actual=None if names is None else getattr(body, names.is_actual),
            occurred_at=None if names is None else getattr(body, names.occurred_at),
            created_at=now,
            request=msgspec.json.format(document.raw, indent=-1).decode(),
            result=msgspec.json.encode(result).decode(),
            calculated_at=now,
        )

    async def _calculate(self, kind: EstimateKind[Any], body: CommonIn, factors: FactorSet) -> Calculated:
        if kind.prepare is not None and kind.name not in self._prepared:
            await in_thread(kind.prepare)
            self._prepared.add(kind.name)
        if kind.in_thread and (kind.is_slow is None or kind.is_slow(body)):
            return await in_thread(kind.calculate, body, factors)
        return kind.calculate(body, factors)
