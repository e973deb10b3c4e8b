from asyncpg import Record
from msgspec import MsgspecError, Struct
from msgspec.json import Decoder

from tonne.platform.db.invariant import Invariant, RowInvariant, RowScan
from tonne.platform.db.json_compression import decompress_json
from tonne.platform.values.serials import serial_range

# What a certificate must state about a parcel, without the quantity.
_LINE_OF_PARCEL = """
    concat_ws(' | ', project.registry_project_id, lot.vintage,
              chr(11) || concat_ws(chr(9), project.registry, lot.serial, lot.unit_grams, parcel.start_grams,
                                   parcel.quantity_grams) || chr(11),
              parcel.retired_on, parcel.retirement_url)
"""
_LOT_OF_PARCEL = """
    JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
    JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
"""


class StatedLine(Struct, gc=False):
    quantity: str
    project_id: str
    vintage: str
    serial_range: str
    retired_on: str
    retirement_url: str | None = None

    def __str__(self) -> str:
        """As `held` has it in `CERTIFICATES`."""
        tonnes, _, grams = self.quantity.partition(".")
        url = "" if self.retirement_url is None else f" | {self.retirement_url}"
        quantity = int(f"{tonnes}{grams:0<6}")
        return f"{quantity} | {self.project_id} | {self.vintage} | {self.serial_range} | {self.retired_on}{url}"


class StatedLines(Struct, gc=False):
    lines: list[StatedLine] = []


_decode_lines = Decoder(StatedLines).decode


def _parse(row: Record) -> list[str]:
    try:
        return sorted([str(line) for line in _decode_lines(decompress_json(row["record"])).lines])
    except (MsgspecError, ValueError):
        return ["cannot be read"]


def _printed(line: str) -> str:
    """A line of `_LINE_OF_PARCEL` with the serial of the parcel."""
    before, _, parcel = line.partition("\v")
    serials, _, after = parcel.partition("\v")
    registry, serial, *grams = serials.split("\t")
    return f"{before}{serial_range(registry, serial, *map(int, grams))}{after}"


def _states_others(row: Record, stated: list[str]) -> str | None:
    if stated == sorted(_printed(line) for line in row["held"].split("\n")) if row["held"] else not stated:
        return None
    lines = ",".join(f'"{line}"' for line in stated)
    return f"certificate {row['number']} of order {row['order_id']}: {{{lines}}}"


CERTIFICATES = RowScan(
    f"""
    SELECT certificate.account_id, certificate.order_id, certificate.number, certificate.record, held.lines AS held
    FROM certificates certificate
    LEFT JOIN (
        SELECT share.account_id, share.order_id,
               string_agg(share.quantity_grams || ' | ' || parcel.line, chr(10)) AS lines
        FROM shares share
        JOIN (SELECT parcel.mode, parcel.id, {_LINE_OF_PARCEL} AS line
              FROM parcels parcel {_LOT_OF_PARCEL} OFFSET 0) parcel
          ON parcel.mode = share.mode AND parcel.id = share.parcel_id
        GROUP BY share.account_id, share.order_id
    ) held ON held.account_id = certificate.account_id AND held.order_id = certificate.order_id
    WHERE certificate.state = 'valid' AND ($1::timestamptz IS NULL OR certificate.issued_at >= $1)
    """,  # noqa: S608 - our own constants
    _parse,
)

CERTIFICATE_INVARIANTS = (
    Invariant(
        "every complete order is fully retired and has one current certificate",
        "An order is complete with an unretired parcel or without a certificate, or has a certificate too early.",
        """
        SELECT format('order %s of account %s, %s', orders.id, orders.account_id, orders.status) AS "where"
        FROM orders
        LEFT JOIN certificates certificate
               ON certificate.account_id = orders.account_id AND certificate.order_id = orders.id
              AND certificate.state <> 'replaced'
        WHERE (orders.status = 'complete') <> (certificate.number IS NOT NULL)
           OR orders.status = 'complete' AND EXISTS (
                  SELECT FROM shares share
                  JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
                  WHERE share.account_id = orders.account_id AND share.order_id = orders.id
                    AND parcel.status <> 'retired')
              AND NOT EXISTS (
                  SELECT FROM lot_cases lot_case WHERE lot_case.account_id = orders.account_id
                    AND lot_case.order_id = orders.id AND lot_case.state = 'retiring')
        """,
    ),
    Invariant(
        "a complete order without a valid certificate is being replaced, or its certificate was withdrawn for good",
        "Its customer has no certificate, and nobody works on a new one; or its new credits wait in an open unit; or "
        "the order does not say that its certificate is being replaced.",
        """
        SELECT format('order %s of account %s: %s, %s', orders.id, orders.account_id, certificate.number,
                      coalesce(orders.certificate_due_on::text, 'no day is promised')) AS "where"
        FROM certificates certificate
        JOIN orders ON orders.account_id = certificate.account_id AND orders.id = certificate.order_id
        CROSS JOIN LATERAL (
            SELECT coalesce(bool_or(state = 'retiring'), false) AS retires,
                   bool_and(state IN ('resupplied', 'reissued')) AS is_done
            FROM lot_cases
            WHERE lot_cases.account_id = orders.account_id AND lot_cases.order_id = orders.id
        ) lot_case
        WHERE certificate.state = 'withdrawn'
          AND ((orders.certificate_due_on IS NOT NULL) <> lot_case.retires
               OR lot_case.is_done
               OR EXISTS (SELECT FROM shares share
                          JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
                          WHERE share.account_id = orders.account_id AND share.order_id = orders.id
                            AND parcel.status = 'open'))
        UNION ALL
        SELECT format('order %s of account %s: valid, but expected on %s', orders.id, orders.account_id,
                      orders.certificate_due_on)
        FROM orders JOIN certificates certificate
          ON certificate.account_id = orders.account_id AND certificate.order_id = orders.id
        WHERE orders.certificate_due_on IS NOT NULL AND certificate.state = 'valid'
        """,
    ),
    Invariant(
        "replaced certificates lead to the current one",
        "A certificate was replaced by one of another order, or the two do not name each other.",
        """
        SELECT format('certificate %s of order %s', coalesce(old.number, new.number),
                      coalesce(old.order_id, new.order_id)) AS "where"
        FROM certificates old
        FULL JOIN certificates new ON new.number = old.replaced_by
        WHERE old.replaced_by IS NOT NULL
              AND (old.account_id, old.order_id, old.number) IS DISTINCT FROM
                  (new.account_id, new.order_id, new.replaces)
           OR new.replaces IS NOT NULL AND old.number IS DISTINCT FROM new.replaces
        """,
    ),
    RowInvariant(
        "a certificate's lines match its order's retirements",
        "A certificate states other credits, quantities or dates than its order's shares of retired parcels.",
        CERTIFICATES,
        _states_others,
    ),
    Invariant(
        "retired vintages match the valid certificates",
        "The vintages on a Sustainability page differ from the certificates: some were counted twice, or not at all.",
        # Valid certificates state these shares: another invariant compares them, so no certificate is parsed here.
        """
        SELECT format('account %s, %s, project %s of %s, vintage %s: %s g counted, %s g of certificates', account_id,
                      year, registry_project_id, registry, vintage, coalesce(total.grams, 0), coalesce(held.grams, 0))
               AS "where"
        FROM (SELECT account_id, year, registry, registry_project_id, vintage, grams
              FROM retired_vintages WHERE grams > 0) total
        FULL JOIN (
            SELECT account_id, year, project.registry, project.registry_project_id, lot.vintage,
                   sum(of_lot.grams)::bigint AS grams
            FROM (SELECT share.account_id, extract(year FROM first.completed_at AT TIME ZONE 'UTC')::smallint AS year,
                         parcel.mode, parcel.lot_id, sum(share.quantity_grams) AS grams
                  FROM (SELECT account_id, order_id, min(issued_at) AS completed_at
                        FROM certificates GROUP BY account_id, order_id HAVING bool_or(state = 'valid')) first
                  JOIN shares share ON share.account_id = first.account_id AND share.order_id = first.order_id
                  JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
                  GROUP BY 1, 2, 3, 4) of_lot
            JOIN lots lot ON lot.mode = of_lot.mode AND lot.id = of_lot.lot_id
            JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
            GROUP BY 1, 2, 3, 4, 5
        ) held USING (account_id, year, registry, registry_project_id, vintage)
        WHERE total.grams IS DISTINCT FROM held.grams
        """,
        is_slow=True,
    ),
)
