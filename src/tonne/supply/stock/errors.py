from tonne.platform.values.errors import Kind, TonneError


class CertificateNotAvailable(TonneError, kind=Kind.NOT_FOUND, code="certificate_not_available"):
    """The order is not complete yet, or has no certificate with the given `number`.

    Wait for `order.completed`, or list its [certificates](certificates.md#replaced-and-withdrawn-certificates).
    """

    message = "The order has no certificate yet. It is issued when the order is complete."


class SupplyShort(TonneError, kind=Kind.CONFLICT, code="supply_short"):
    """A test helper is asked to retire an order while its account simulates less supply (`PUT
    /v1/test-helpers/supply`).

    End the simulation, then try again.
    """

    message = (
        "There is not enough supply for this order, because the account simulates short supply. End that with "
        '`PUT /v1/test-helpers/supply` and `{"available_quantity": null}`, then try again.'
    )


class LotNotFound(TonneError, kind=Kind.NOT_FOUND, code="lot_not_found"):
    """On the command line: there is no such lot, or it is withdrawn.

    See `tonne lot list` and `tonne lot show`.
    """

    message = "There is no such lot. Run `tonne lot list --mode live` or `--mode test` to see all."


class LotInUse(TonneError, kind=Kind.CONFLICT, code="lot_in_use"):
    """On the command line: a lot of which orders hold tonnes is withdrawn.

    Invalidate it with `tonne lot invalidate`; `tonne lot show` lists the orders.
    """

    message = "Orders hold tonnes of this lot, so it cannot be withdrawn."


class LotNotInUse(TonneError, kind=Kind.CONFLICT, code="lot_not_in_use"):
    """On the command line: a lot of which no order holds tonnes is invalidated.

    Withdraw it with `tonne lot withdraw`.
    """

    message = "No order holds tonnes of this lot. Withdraw it with `tonne lot withdraw`."


class LotCaseNotFound(TonneError, kind=Kind.NOT_FOUND, code="lot_case_not_found"):
    """On the command line: the order named with `tonne lot resolve` holds no tonnes of the lot.

    See `tonne lot show`.
    """

    message = "The order does not hold tonnes of this lot. `tonne lot show` lists the orders that do."


class LotCaseDecided(TonneError, kind=Kind.CONFLICT, code="lot_case_decided"):
    """On the command line: a decision about an invalid lot comes too late for the order, or the order has no
    certificate to withdraw.

    See `tonne lot show`.
    """

    message = "The order was already dealt with. `tonne lot show` says how."


class UnitNotOpen(TonneError, kind=Kind.CONFLICT, code="unit_not_open"):
    """On the command line: a unit that is not open is closed.

    See `tonne unit list`.
    """

    message = "The unit is not open. `tonne unit list` shows the open units."


class UnitNotFound(TonneError, kind=Kind.NOT_FOUND, code="unit_not_found"):
    """On the command line: there is no such pooled unit.

    See `tonne unit list`.
    """

    message = "There is no such unit. `tonne unit list` shows all units."


class CertificateNotValid(TonneError, kind=Kind.CONFLICT, code="certificate_not_valid"):
    """The certificate of the order was withdrawn.

    Read its reason in `certificate.json`.
    """

    message = "The certificate of this order was withdrawn, so it cannot be changed."


class BeneficiaryRetired(TonneError, kind=Kind.CONFLICT, code="beneficiary_retired"):
    """The name of an order is to change while some of its credits are already retired in its present name.

    Wait until the order is `complete`: a new certificate then [replaces](orders.md#correct-a-name) the first one.
    """

    message = (
        "Some credits of this order are already retired in its present name. Correct the name when the order is "
        "complete: a new certificate then replaces the first one."
    )
