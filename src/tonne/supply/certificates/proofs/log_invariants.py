"""Conditions of the transparency log that must always hold. `check_tree.py` recomputes the tree itself."""

from tonne.platform.db.invariant import Invariant, SharedScan

# The facts of a record, without personal values, as `statements.py` chooses them. Null and missing are the same.
_FACTS_OF_RECORD = """
    jsonb_strip_nulls((decoded.document - ARRAY ['beneficiary', 'logo', 'name_erased_on', 'lines'])
        #- '{replaces,reason}'
        || jsonb_build_object('lines', (
               SELECT jsonb_agg((line - 'registry_name') #- '{in_advance,assigned_to}' ORDER BY place)
               FROM jsonb_array_elements(decoded.document -> 'lines') WITH ORDINALITY AS each (line, place))))
"""
_LOGGED = SharedScan(
    """
    logged AS MATERIALIZED (
        SELECT log_statements.mode, kind, subject, revision, log_id, position, salt, statement, names, names_salt,
               convert_from(statement, 'UTF8')::jsonb AS stated,
               row_number() OVER (PARTITION BY log_statements.mode, kind, subject ORDER BY revision DESC) = 1 AS is_last
        FROM log_statements WHERE log_id IS NOT NULL AND ($1::timestamptz IS NULL OR recorded_at >= $1)
    )
    """
)
INVARIANTS = (
    Invariant(
        "every retirement and certificate event has a statement for the log, and no statement has no event",
        "Something happened that the log does not show, or the log shows something that did not happen.",
        """
        SELECT format('%s of %s %s: %s', coalesce(event.kind, logged.kind), coalesce(event.mode, logged.mode),
                      coalesce(event.subject, logged.subject),
                      CASE WHEN logged.kind IS NULL THEN 'has no statement' ELSE 'did not happen' END) AS "where"
        FROM (SELECT mode, 'retirement' AS kind, id AS subject FROM parcels WHERE status = 'retired'
              UNION ALL
              SELECT mode, 'certificate.issued', number FROM certificates
              UNION ALL
              SELECT mode, 'certificate.' || state, number FROM certificates WHERE state <> 'valid') AS event
        FULL JOIN (SELECT mode, kind, subject FROM log_statements WHERE revision = 1) AS logged
               ON logged.mode = event.mode AND logged.kind = event.kind AND logged.subject = event.subject
        LEFT JOIN certificates replaced
               ON replaced.number = logged.subject AND logged.kind = 'certificate.withdrawn'
              AND replaced.state = 'replaced'
        WHERE event.kind IS NULL AND replaced.number IS NULL OR logged.kind IS NULL
        """,
        is_slow=True,
    ),
    Invariant(
        "positions of the log have no gap",
        "An entry of the log has no statement, or its tree has another size than its statements say.",
        """
        SELECT format('log %s: %s entries, %s statements from %s to %s', coalesce(log.origin, found.log_id::text),
                      log.size, coalesce(found.statements, 0), found.first, found.last) AS "where"
        FROM logs log
        FULL JOIN (SELECT log_id, count(*) AS statements, min(position) AS first, max(position) AS last
                   FROM log_statements WHERE log_id IS NOT NULL GROUP BY log_id) AS found ON found.log_id = log.id
        -- The first entry of a later generation is the head of the one before.
        CROSS JOIN LATERAL (SELECT CASE WHEN log.generation > 1 THEN 1 ELSE 0 END AS start) AS own
        WHERE log.id IS NULL OR coalesce(found.statements, 0) <> log.size - own.start
           OR found.statements > 0 AND (found.first, found.last) <> (own.start, log.size - 1)
        """,
    ),
    Invariant(
        "entries of the log are the hashes of their statements",
        "A statement was changed after it was logged, or an entry was. Certificates of it can no longer be proven.",
        # An entry has its length before it. Only entry 0 of a later generation, the head of the one before, is longer.
        r"""
        SELECT format('log %s, position %s: %s %s', logged.log_id, logged.position, logged.kind, logged.subject)
               AS "where"
        FROM logged
        LEFT JOIN log_entries bundle ON bundle.log_id = logged.log_id AND bundle.number = logged.position / 256
        LEFT JOIN logs log ON log.id = logged.log_id
        WHERE substr(bundle.entries, 1 + 34 * (logged.position % 256)::integer + CASE
                         WHEN log.generation > 1 AND bundle.number = 0
                         THEN get_byte(bundle.entries, 0) * 256 + get_byte(bundle.entries, 1) - 32 ELSE 0 END, 34)
              IS DISTINCT FROM '\x0020'::bytea || sha256(logged.salt || logged.statement)
        """,
        scan=_LOGGED,
        is_slow=True,
    ),
    Invariant(
        "statements of the log match the certificates and retirements",
        "The log states other facts about a certificate or a retirement than the database has now.",
        f"""
        SELECT format('certificate %s, %s', logged.subject, logged.kind) AS "where"
        FROM logged
        JOIN certificates certificate ON certificate.number = logged.subject
        CROSS JOIN LATERAL (SELECT convert_from(certificate.record, 'UTF8')::jsonb AS document) AS decoded
        WHERE logged.kind <> 'retirement'
          AND CASE logged.kind
              WHEN 'certificate.issued' THEN jsonb_strip_nulls(logged.stated -> 'facts') <> {_FACTS_OF_RECORD}
              WHEN 'certificate.replaced' THEN
                  logged.stated -> 'facts' <> jsonb_build_object('number', certificate.number,
                                                                 'replaced_by', certificate.replaced_by)
              ELSE logged.stated -> 'facts' <> jsonb_build_object('number', certificate.number) END
        UNION ALL
        SELECT format('retirement %s', logged.subject)
        FROM logged
        JOIN parcels parcel ON parcel.mode = logged.mode AND parcel.id = logged.subject
        JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
        JOIN serial_blocks block ON block.number = lot.serial_block
        JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
        CROSS JOIN LATERAL (
            SELECT lot.first_number + parcel.start_grams / 1000000 AS first,
                   lot.first_number + (parcel.start_grams + parcel.quantity_grams - 1) / 1000000 AS last
        ) AS serial
        CROSS JOIN LATERAL jsonb_to_record(logged.stated -> 'facts') AS facts (
            registry text, project_id text, vintage text, serial_range text, quantity numeric, retired_on date,
            retirement_url text)
        -- A correction that is not logged yet has a statement of its own.
        WHERE logged.kind = 'retirement' AND logged.is_last
          AND NOT EXISTS (SELECT FROM log_statements later WHERE later.mode = logged.mode AND later.kind = 'retirement'
                            AND later.subject = logged.subject AND later.revision > logged.revision)
          AND (facts.registry, facts.project_id, facts.vintage, facts.quantity * 1000000, facts.retired_on,
               facts.retirement_url, split_part(split_part(facts.serial_range, ' (kg ', 1), ' (g ', 1))
              IS DISTINCT FROM
              (project.registry, project.registry_project_id, lot.vintage::text, parcel.quantity_grams::numeric,
               parcel.retired_on, parcel.retirement_url,
               concat(coalesce(lot.block_spelling, block.block), ' ', serial.first,
                      '–' || nullif(serial.last, serial.first)))
        """,  # noqa: S608 - our own constants
        scan=_LOGGED,
        is_slow=True,
    ),
    Invariant(
        "names in the log are those that their statements were made with",
        "A name was changed after the statement was logged: the certificate can no longer be proven to be in it.",
        """
        SELECT format('%s %s', kind, subject) AS "where" FROM logged
        WHERE names IS NOT NULL
          AND encode(sha256(names_salt || convert_to(names, 'UTF8')), 'hex') IS DISTINCT FROM stated ->> 'names'
        """,
        scan=_LOGGED,
    ),
    Invariant(
        "names in the log are those of the certificates",
        "The log keeps the name of a person who was erased.",
        """
        SELECT format('certificate %s', logged.subject) AS "where"
        FROM logged
        JOIN certificates certificate ON certificate.number = logged.subject
        WHERE logged.kind = 'certificate.issued' AND logged.names IS NOT NULL
          AND logged.names::json ->> 'beneficiary' <> convert_from(certificate.record, 'UTF8')::json ->> 'beneficiary'
        """,
        scan=_LOGGED,
    ),
    Invariant(
        "checkpoints state the log, the size and the root that are stored with them",
        "A published checkpoint was changed, or the size that counts as published has no checkpoint.",
        r"""
        SELECT format('log %s, checkpoint of size %s', log.origin, checkpoint.size) AS "where"
        FROM log_checkpoints checkpoint JOIN logs log ON log.id = checkpoint.log_id
        WHERE NOT starts_with(checkpoint.note, concat_ws(E'\n', log.origin, checkpoint.size,
                                                         encode(checkpoint.root, 'base64'), E'\n'))
           OR checkpoint.size > log.published_size
        UNION ALL
        SELECT format('log %s, published size %s', log.origin, log.published_size) FROM logs log
        WHERE log.published_size > 0 AND NOT EXISTS (
            SELECT FROM log_checkpoints checkpoint
            WHERE checkpoint.log_id = log.id AND checkpoint.size = log.published_size)
        """,
    ),
)
