from tonne.platform.db.invariant import Invariant

INVARIANTS = (
    Invariant(
        "certificates that are not valid are in a status list",
        "A certificate was replaced or withdrawn, and its credential still counts as valid, or another one does not.",
        """
        SELECT format('certificate %s of order %s, %s', certificate.number, certificate.order_id, certificate.state)
               AS "where"
        FROM certificates certificate
        LEFT JOIN log_statements statement
               ON statement.mode = certificate.mode AND statement.kind = 'certificate.issued'
              AND statement.subject = certificate.number
        WHERE certificate.state <> 'valid'
              AND (certificate.status_index IS NULL OR certificate.status_index IS DISTINCT FROM statement.id)
           OR certificate.state = 'valid' AND certificate.status_index IS NOT NULL
        """,
    ),
)
