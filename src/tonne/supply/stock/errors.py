from tonne.platform.values.errors import Kind, TonneError


class CertificateNotAvailable(TonneError, kind=Kind.NOT_FOUND, code="certificate_not_available"):
    message = "The order has no certificate yet. It is issued when the order is complete."


class SupplyShort(TonneError, kind=Kind.CONFLICT, code="supply_short"):
    message = (
        "There is not enough supply for this order, because the account simulates short supply. End that with "
        '`PUT /v1/test-helpers/supply` and `{"available_quantity": null}`, then try again.'
    )


class LotNotFound(TonneError, kind=Kind.NOT_FOUND, code="lot_not_found"):
    message = "There is no such lot. Run `tonne lot list --mode live` or `--mode test` to see all."


class LotInUse(TonneError, kind=Kind.CONFLICT, code="lot_in_use"):
    message = "Orders hold tonnes of this lot, so it cannot be withdrawn."


class LotNotInUse(TonneError, kind=Kind.CONFLICT, code="lot_not_in_use"):
    message = "No order holds tonnes of this lot. Withdraw it with `tonne lot withdraw`."


class LotCaseNotFound(TonneError, kind=Kind.NOT_FOUND, code="lot_case_not_found"):
    message = "The order does not hold tonnes of this lot. `tonne lot show` lists the orders that do."


class LotCaseDecided(TonneError, kind=Kind.CONFLICT, code="lot_case_decided"):
    message = "The order was already dealt with. `tonne lot show` says how."


class UnitNotOpen(TonneError, kind=Kind.CONFLICT, code="unit_not_open"):
    message = "The unit is not open. `tonne unit list` shows the open units."


class UnitNotFound(TonneError, kind=Kind.NOT_FOUND, code="unit_not_found"):
    message = "There is no such unit. `tonne unit list` shows all units."


class NotEnoughInStock(TonneError, kind=Kind.CONFLICT, code="not_enough_in_stock"):
    message = "Not enough in stock. Nothing was charged. Choose a smaller amount or another option, or try again later."


class CertificateNotValid(TonneError, kind=Kind.CONFLICT, code="certificate_not_valid"):
    message = "The certificate of this order was withdrawn, so it cannot be changed."


class BeneficiaryRetired(TonneError, kind=Kind.CONFLICT, code="beneficiary_retired"):
    message = (
        "Some credits of this order are already retired in its present name. Correct the name when the order is "
        "complete: a new certificate then replaces the first one."
    )
