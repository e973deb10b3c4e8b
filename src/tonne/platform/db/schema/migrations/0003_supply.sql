-- compatible_from: 6

-- transparency -------------------------------------------------------------------------------------------------

-- The transparency logs: one open log per mode. `tonne log reopen` closes one and opens the next generation.
-- The row is locked by the one writer of the tree.
CREATE TABLE logs (
    id               integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    mode             mode NOT NULL,
    generation       integer NOT NULL CHECK (generation > 0),
    origin           text NOT NULL UNIQUE,
    -- Entries of the tree, and how many of them the newest checkpoint covers.
    size             bigint NOT NULL DEFAULT 0,
    published_size   bigint NOT NULL DEFAULT 0,
    opened_at        timestamptz NOT NULL,
    closed_at        timestamptz,
    closed_reason    text,
    -- The last signed checkpoint of the generation before, which is also entry 0 of this log.
    previous_head    text,
    -- When the next checkpoint may be published; the end of the lease while a worker publishes one.
    next_publish_at  timestamptz NOT NULL,
    -- Why the last attempt to publish was refused. Null after a success.
    refusal          text,
    refused_at       timestamptz,
    UNIQUE (mode, generation),
    CHECK (published_size BETWEEN 0 AND size),
    CHECK ((generation = 1) = (previous_head IS NULL)),
    CHECK ((closed_at IS NULL) = (closed_reason IS NULL)),
    CHECK ((refusal IS NULL) = (refused_at IS NULL))
);
CREATE UNIQUE INDEX logs_open ON logs (mode) WHERE closed_at IS NULL;

-- What the entries of the logs state. The packages that own certificates and parcels record the rows; the worker
-- composes `statement` when it appends the entry. The entry is SHA-256(salt, statement), so it shows nothing.
CREATE TABLE log_statements (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    mode         mode NOT NULL,
    kind         text NOT NULL CHECK (kind IN
                     ('retirement', 'certificate.issued', 'certificate.replaced', 'certificate.withdrawn')),
    -- The id of the parcel, or the number of the certificate.
    subject      text NOT NULL,
    -- Above 1 for a retirement that was corrected after it had been logged.
    revision     smallint NOT NULL DEFAULT 1 CHECK (revision > 0),
    at           timestamptz NOT NULL,
    recorded_at  timestamptz NOT NULL DEFAULT now(),
    -- Canonical JSON (RFC 8785), compressed. The entry is made of what it was before.
    statement    bytea,
    salt         bytea CHECK (length(salt) = 32),
    -- Personal values and free texts (JSON). The statement has only their salted hash. Null once they are erased.
    names        text,
    names_salt   bytea CHECK (length(names_salt) = 32),
    log_id       integer,
    position     bigint CHECK (position >= 0),
    UNIQUE (mode, kind, subject, revision),
    UNIQUE (log_id, position),
    CHECK ((log_id IS NULL) = (position IS NULL)),
    CHECK ((statement IS NULL) = (salt IS NULL) AND (log_id IS NULL OR statement IS NOT NULL)),
    CHECK (names_salt IS NULL OR names IS NOT NULL)
);
CREATE INDEX log_statements_waiting ON log_statements (mode, id) WHERE log_id IS NULL;

-- Tiles of the trees (c2sp.org/tlog-tiles): up to 256 hashes of 32 bytes. Only the last tile of each level grows.
CREATE TABLE log_tiles (
    log_id  integer NOT NULL,
    level   smallint NOT NULL,
    number  bigint NOT NULL,
    hashes  bytea NOT NULL CHECK (length(hashes) BETWEEN 32 AND 8192 AND length(hashes) % 32 = 0),
    PRIMARY KEY (log_id, level, number)
);

-- Bundles of up to 256 entries, each with its length before it. Only the last one grows.
CREATE TABLE log_entries (
    log_id   integer NOT NULL,
    number   bigint NOT NULL,
    entries  bytea NOT NULL,
    PRIMARY KEY (log_id, number)
);

-- Published checkpoints. Only cosignatures that arrive late are added to the newest one.
CREATE TABLE log_checkpoints (
    log_id        integer NOT NULL REFERENCES logs,
    size          bigint NOT NULL CHECK (size > 0),
    root          bytea NOT NULL CHECK (length(root) = 32),
    -- The signed note, with the signatures of witnesses.
    note          text NOT NULL,
    cosignatures  smallint NOT NULL DEFAULT 0,
    published_at  timestamptz NOT NULL,
    PRIMARY KEY (log_id, size)
);
CREATE INDEX log_checkpoints_cosigned ON log_checkpoints (log_id, cosignatures, size) WHERE cosignatures > 0;

-- What the witnesses of the settings have cosigned of each log. A new row is due at once.
CREATE TABLE log_witnesses (
    log_id           integer NOT NULL REFERENCES logs,
    vkey             text NOT NULL,
    -- The last checkpoint that it has cosigned: its size, and when.
    size             bigint NOT NULL DEFAULT 0,
    cosigned_at      timestamptz,
    -- Since when it has not cosigned, and why.
    failing_since    timestamptz,
    failures         integer NOT NULL DEFAULT 0,
    problem          text,
    detail           text,
    -- When it is asked again; null while it cosigns, because then it is asked about every checkpoint.
    next_attempt_at  timestamptz,
    PRIMARY KEY (log_id, vkey),
    CHECK ((cosigned_at IS NULL) = (size = 0)),
    CHECK ((failing_since IS NULL) = (problem IS NULL) AND (failing_since IS NULL) = (failures = 0))
);

-- stock --------------------------------------------------------------------------------------------------------

-- Registries number units within a namespace: a batch of Verra, an issuance of Puro (`tonne_verify/serials`).
-- Multiplying its number into the range below keeps the ranges of different namespaces apart, so that one exclusion
-- constraint covers all lots without an extension.
CREATE TABLE serial_blocks (
    number     integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace  text NOT NULL UNIQUE
);

-- What is known of credits (canonical JSON) by its SHA-256. Rows never change: orders keep those of their allocation.
CREATE TABLE credit_facts (
    digest    bytea PRIMARY KEY CHECK (length(digest) = 32),
    document  text NOT NULL
);

-- Registry units with consecutive numbers. One unit is a tonne, or a kilogram.
CREATE TABLE lots (
    mode             mode NOT NULL,
    id               text NOT NULL UNIQUE,
    project_id       text NOT NULL,
    vintage          smallint NOT NULL CHECK (vintage BETWEEN 1990 AND 2100),
    -- The whole serial, as the registry writes it. What follows it says was read from it.
    serial           text NOT NULL CHECK (length(serial) BETWEEN 1 AND 300),
    serial_block     integer NOT NULL REFERENCES serial_blocks,
    first_number     bigint NOT NULL CHECK (first_number >= 0),
    last_number      bigint NOT NULL CHECK (last_number < 1000000000000000),
    unit_grams       bigint NOT NULL CHECK (unit_grams IN (1000, 1000000)),
    quantity_grams   bigint NOT NULL,
    country          text NOT NULL,
    methodology      text,
    status           text NOT NULL CHECK (status IN ('held', 'pre_retired')),
    retirement_url   text,
    retired_on       date,
    allocated_grams  bigint NOT NULL DEFAULT 0,
    created_at       timestamptz NOT NULL,
    -- What the file says of the credits besides (JSON, LotFacts), and with that what an order gets to know of them now.
    facts            text NOT NULL DEFAULT '{}',
    facts_digest     bytea REFERENCES credit_facts,
    -- The cost of a tonne in minor units of `cost_currency`, for the journal.
    unit_cost_minor  bigint CHECK (unit_cost_minor >= 0),
    cost_currency    text CHECK (cost_currency ~ '^[A-Z]{3}$'),
    -- A lot whose credits turned out to be worthless. Nothing is sold from it any more: `allocated_grams` is the whole
    -- lot, and `invalid_grams` are those that no parcel had.
    invalidated_at   timestamptz,
    invalidated_by   text,
    invalid_reason   text CHECK (length(invalid_reason) BETWEEN 1 AND 500),
    invalid_grams    bigint NOT NULL DEFAULT 0 CHECK (invalid_grams >= 0),
    -- The account at the registry whose gateway retires the credits, and the registry's id of the holding that has them.
    -- Null: a person retires them. Simulated registries have no credits that anybody could buy.
    registry_account text CHECK (mode = 'test' OR registry_account NOT LIKE 'sim-%'),
    holding_id       text,
    -- The registry contradicts the books: nothing is allocated from the lot, or asked for, until that is settled.
    paused_at        timestamptz,
    pause_reason     text CHECK (length(pause_reason) BETWEEN 1 AND 500),
    PRIMARY KEY (mode, id),
    FOREIGN KEY (mode, project_id) REFERENCES projects,
    CHECK ((registry_account IS NULL) = (holding_id IS NULL)),
    CHECK ((paused_at IS NULL) = (pause_reason IS NULL)),
    CHECK (last_number >= first_number AND last_number - first_number < 1000000000),
    CHECK (quantity_grams = (last_number - first_number + 1) * unit_grams),
    CHECK (allocated_grams BETWEEN 0 AND quantity_grams),
    CHECK ((status = 'pre_retired') = (retirement_url IS NOT NULL AND retired_on IS NOT NULL)),
    CHECK ((unit_cost_minor IS NULL) = (cost_currency IS NULL)),
    CHECK (
        (invalidated_at IS NULL) = (invalid_reason IS NULL) AND (invalidated_at IS NULL) = (invalidated_by IS NULL)
        AND (invalidated_at IS NOT NULL OR invalid_grams = 0)),
    -- Checked at the end of a statement: one import may move the border between two lots.
    CONSTRAINT lots_never_overlap EXCLUDE USING gist (
        numrange(serial_block * 1000000000000000::numeric + first_number,
                 serial_block * 1000000000000000::numeric + last_number, '[]') WITH &&) DEFERRABLE INITIALLY IMMEDIATE
);
CREATE INDEX lots_by_project ON lots (mode, project_id, vintage, id);
-- Several lots may be in one holding, if a registry has retired units between them.
CREATE INDEX lots_of_holding ON lots (registry_account, holding_id) WHERE registry_account IS NOT NULL;

-- Whole registry units taken from a lot and retired together. `start_grams` counts from the lot's first serial number;
-- the next parcel of a lot starts at the lot's allocated_grams.
CREATE TABLE parcels (
    mode             mode NOT NULL,
    id               text NOT NULL,
    lot_id           text NOT NULL,
    project_id       text NOT NULL,
    start_grams      bigint NOT NULL CHECK (start_grams >= 0),
    quantity_grams   bigint NOT NULL CHECK (quantity_grams > 0),
    -- How much of it belongs to orders. Less than quantity_grams only in a pooled unit, which fractions share.
    allocated_grams  bigint NOT NULL,
    -- The account whose fractions it takes; null for a unit retired in the service's name, which any account shares.
    account_id       text,
    beneficiary      text NOT NULL,
    in_service_name  boolean NOT NULL,
    status           text NOT NULL CHECK (status IN ('open', 'to_retire', 'retired', 'invalid')),
    opened_at        timestamptz NOT NULL,
    -- A unit that is still open at this time is retired in the service's name.
    close_at         timestamptz,
    retired_on       date,
    retirement_url   text,
    retired_at       timestamptz,
    -- The parcel from which it was split off, because the registry retired only a part of that one, or other serials.
    split_from       text,
    -- A parcel of an invalid lot is `invalid`, or stays `retired`: the retirement is a fact at the registry. Orders that
    -- are supplied from another lot give back their share, so that nothing of it may be left.
    invalidated_at   timestamptz,
    -- When a pooled unit was put on the work list.
    closed_at        timestamptz,
    -- The request to the registry that retires it, or has retired it.
    instruction_id   text,
    -- Why a person has to retire it, although the registry of its lot has a gateway.
    desk_note        text CHECK (length(desk_note) BETWEEN 1 AND 500),
    -- Since when a person has it in an exported work list, and may be retiring it.
    exported_at      timestamptz,
    exported_by      text,
    PRIMARY KEY (mode, id),
    CHECK ((exported_at IS NULL) = (exported_by IS NULL)),
    CHECK (status <> 'open' OR instruction_id IS NULL),
    UNIQUE (mode, lot_id, start_grams),
    FOREIGN KEY (mode, lot_id) REFERENCES lots,
    CHECK (in_service_name = (account_id IS NULL)),
    CHECK ((status = 'retired') = (retired_on IS NOT NULL)),
    CHECK ((status = 'open') = (close_at IS NOT NULL)),
    CHECK (status <> 'open' OR allocated_grams < quantity_grams),
    CHECK (allocated_grams BETWEEN 0 AND quantity_grams AND (allocated_grams > 0 OR invalidated_at IS NOT NULL)),
    CHECK (status <> 'invalid' OR invalidated_at IS NOT NULL)
);
CREATE INDEX parcels_with_room ON parcels (mode, project_id, account_id) WHERE allocated_grams < quantity_grams;
CREATE INDEX parcels_to_close ON parcels (close_at) WHERE status = 'open';
CREATE INDEX parcels_to_retire ON parcels (mode, opened_at, id) WHERE status = 'to_retire';
CREATE INDEX parcels_unretired ON parcels (mode, lot_id) WHERE status IN ('open', 'to_retire');
CREATE INDEX parcels_of_instruction ON parcels (instruction_id) WHERE instruction_id IS NOT NULL;
CREATE INDEX parcels_split_from ON parcels (mode, split_from) WHERE split_from IS NOT NULL;
CREATE INDEX parcels_by_retirement_url ON parcels (mode, retirement_url)
    WHERE retirement_url IS NOT NULL AND status = 'retired';

-- The grams of a parcel that belong to one line of an order.
CREATE TABLE shares (
    account_id       text NOT NULL,
    order_id         text NOT NULL,
    line_position    smallint NOT NULL,
    mode             mode NOT NULL,
    parcel_id        text NOT NULL,
    organisation_id  text NOT NULL,
    -- The name at the registry, at the time of allocation. It is not the name of a person.
    beneficiary      text NOT NULL,
    quantity_grams   bigint NOT NULL CHECK (quantity_grams > 0),
    -- What was known of the credits when they were allocated. Null: nothing.
    facts_digest     bytea REFERENCES credit_facts,
    -- Set for a share that replaces one of an invalid lot: when the order got it. Null: when the order was allocated.
    assigned_at      timestamptz,
    PRIMARY KEY (order_id, line_position, parcel_id),
    FOREIGN KEY (account_id, order_id, line_position) REFERENCES order_lines,
    FOREIGN KEY (mode, parcel_id) REFERENCES parcels
);
CREATE INDEX shares_of_parcel ON shares (mode, parcel_id);
CREATE INDEX shares_of_organisation ON shares (organisation_id, mode, parcel_id);

-- Shares of invalid lots that orders had before they were supplied from other lots.
CREATE TABLE replaced_shares (
    account_id       text NOT NULL,
    order_id         text NOT NULL,
    line_position    smallint NOT NULL,
    mode             mode NOT NULL,
    parcel_id        text NOT NULL,
    organisation_id  text NOT NULL,
    beneficiary      text NOT NULL,
    quantity_grams   bigint NOT NULL CHECK (quantity_grams > 0),
    replaced_at      timestamptz NOT NULL,
    PRIMARY KEY (account_id, order_id, line_position, parcel_id),
    FOREIGN KEY (account_id, order_id, line_position) REFERENCES order_lines,
    FOREIGN KEY (mode, parcel_id) REFERENCES parcels
);
CREATE INDEX replaced_shares_of_parcel ON replaced_shares (mode, parcel_id);

-- Grams that a customer at the gateway's payment page gets if they pay: per checkout, the bundles of its lines and the
-- projects that can supply them. The rows are deleted when the order is allocated, cancelled or declined, or when the
-- hold has expired and no charge is open.
CREATE TABLE supply_holds (
    account_id       text NOT NULL,
    checkout_id      text NOT NULL,
    bundle_id        text NOT NULL,
    project_id       text NOT NULL,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    -- Quotes, and paid orders that are not fulfilled yet, hold supply, too: `checkout_id` is then the id of the quote or
    -- the order, without trust and a customer.
    kind             text NOT NULL CHECK (kind IN ('checkout', 'quote', 'order')),
    trust            text CHECK (trust IN ('trusted', 'known', 'anonymous')),
    -- The order of the checkout, once it is placed. A quote names its order itself.
    order_id         text,
    -- SHA-256 of the customer's network and e-mail address, by which holds are limited; deleted within the hour.
    client_hash      bytea CHECK (length(client_hash) = 32),
    email_hash       bytea CHECK (length(email_hash) = 32),
    quantity_grams   bigint NOT NULL CHECK (quantity_grams > 0),
    -- In whole units of the registry: another account may not be able to use the rest of a unit.
    reserved_grams   bigint NOT NULL CHECK (reserved_grams >= quantity_grams),
    -- How often the order was charged before. A later charge that fails ends the hold.
    charges_before   smallint NOT NULL,
    expires_at       timestamptz NOT NULL,
    PRIMARY KEY (account_id, checkout_id, bundle_id, project_id)
);
CREATE INDEX supply_holds_of_project ON supply_holds (mode, project_id);

-- Lots that an operator withdrew before anything was allocated from them. Their serial numbers may be imported again.
CREATE TABLE withdrawn_lots (
    mode             mode NOT NULL,
    id               text NOT NULL,
    project_id       text NOT NULL,
    vintage          smallint NOT NULL,
    serial           text NOT NULL,
    unit_grams       bigint NOT NULL,
    quantity_grams   bigint NOT NULL,
    country          text NOT NULL,
    methodology      text,
    status           text NOT NULL,
    retirement_url   text,
    retired_on       date,
    created_at       timestamptz NOT NULL,
    withdrawn_at     timestamptz NOT NULL,
    withdrawn_by     text NOT NULL,
    reason           text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    unit_cost_minor  bigint,
    cost_currency    text,
    facts            text NOT NULL,
    PRIMARY KEY (mode, id),
    FOREIGN KEY (mode, project_id) REFERENCES projects
);

-- The orders that hold grams of an invalid lot, one row each, until they are dealt with.
CREATE TABLE lot_cases (
    mode                mode NOT NULL,
    lot_id              text NOT NULL,
    account_id          text NOT NULL,
    order_id            text NOT NULL,
    organisation_id     text NOT NULL,
    quantity_grams      bigint NOT NULL CHECK (quantity_grams > 0),
    -- The certificate that states the lot; null if none had been issued.
    certificate_number  text,
    -- undecided: the operator decides. resupply: waits for other credits. retiring: has them, the certificate is issued
    -- again when they are retired. resupplied, reissued, withdrawn: done.
    state               text NOT NULL CHECK (state IN
                            ('undecided', 'resupply', 'retiring', 'resupplied', 'reissued', 'withdrawn')),
    opened_at           timestamptz NOT NULL,
    -- When a worker looks at it next.
    next_attempt_at     timestamptz,
    decided_by          text,
    -- When the order got credits of other lots.
    resupplied_at       timestamptz,
    done_at             timestamptz,
    PRIMARY KEY (mode, lot_id, account_id, order_id),
    FOREIGN KEY (mode, lot_id) REFERENCES lots,
    FOREIGN KEY (account_id, order_id) REFERENCES orders,
    CHECK ((state IN ('resupplied', 'reissued', 'withdrawn')) = (done_at IS NOT NULL))
);
CREATE INDEX lot_cases_due ON lot_cases (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX lot_cases_of_order ON lot_cases (account_id, order_id);

-- How much of each project was sold in total, noted once a day: the difference of two days is what was sold in between.
CREATE TABLE supply_days (
    mode        mode NOT NULL,
    day         date NOT NULL,
    project_id  text NOT NULL,
    sold_grams  bigint NOT NULL CHECK (sold_grams >= 0),
    PRIMARY KEY (mode, day, project_id)
);

-- certificates -------------------------------------------------------------------------------------------------

-- One valid certificate per complete order. Orders that were complete may have a withdrawn one.
CREATE TABLE certificates (
    account_id        text NOT NULL,
    order_id          text NOT NULL,
    organisation_id   text NOT NULL,
    mode              mode NOT NULL,
    number            text PRIMARY KEY,
    issued_at         timestamptz NOT NULL,
    -- Everything that PDF, page and JSON show (JSON, compressed). Never changed.
    record            bytea NOT NULL,
    -- A certificate may be replaced by another one of the same order, or withdrawn. Numbers and records never change.
    state             text NOT NULL DEFAULT 'valid' CHECK (state IN ('valid', 'replaced', 'withdrawn')),
    replaces          text REFERENCES certificates,
    -- Deferred: the old certificate is updated before the new one is inserted.
    replaced_by       text REFERENCES certificates DEFERRABLE INITIALLY DEFERRED,
    -- Why it is no longer valid, and since when.
    state_reason      text CHECK (length(state_reason) BETWEEN 1 AND 500),
    state_changed_at  timestamptz,
    -- False for the name of a person who did not agree to be named in public.
    is_public         boolean NOT NULL DEFAULT true,
    -- When a worker tells the customer about a replaced or withdrawn certificate. Set on the one that the mail is about.
    next_mail_at      timestamptz,
    -- The place of a certificate in the status lists, set when it is no longer valid: the id of the statement that it
    -- was issued. Lists are read from the index, so their cost does not grow with the number of valid certificates.
    status_index      bigint,
    FOREIGN KEY (account_id, order_id) REFERENCES orders,
    CHECK ((state = 'replaced') = (replaced_by IS NOT NULL)),
    CHECK ((state = 'valid') = (state_reason IS NULL) AND (state = 'valid') = (state_changed_at IS NULL))
);
-- An order has one current certificate, valid or withdrawn, the last of its chain: only that one is replaced by none.
CREATE UNIQUE INDEX certificates_of_order ON certificates (order_id, replaced_by) NULLS NOT DISTINCT;
-- Few are replaced: these indexes have no entries for the others.
CREATE UNIQUE INDEX certificates_replacing ON certificates (replaces) WHERE replaces IS NOT NULL;
CREATE UNIQUE INDEX certificates_replaced ON certificates (replaced_by) WHERE replaced_by IS NOT NULL;
CREATE INDEX certificates_to_mail ON certificates (next_mail_at) WHERE next_mail_at IS NOT NULL;
CREATE INDEX certificates_of_organisation
    ON certificates (organisation_id, mode, issued_at, number);
-- The list of a Sustainability page skips certificates in private names, which may be many.
CREATE INDEX certificates_public ON certificates (account_id, issued_at, number)
    WHERE state = 'valid' AND is_public;
CREATE UNIQUE INDEX certificates_changed ON certificates (mode, status_index)
    WHERE status_index IS NOT NULL;
CREATE TRIGGER certificate_numbers_not_while_held BEFORE INSERT ON certificates
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_while_held();

CREATE FUNCTION set_status_index() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.status_index := (SELECT id FROM log_statements
                         WHERE mode = NEW.mode AND kind = 'certificate.issued' AND subject = NEW.number);
    RETURN NEW;
END
$$;
CREATE TRIGGER changed_certificates_are_listed BEFORE UPDATE ON certificates FOR EACH ROW
    WHEN (OLD.state = 'valid' AND NEW.state <> 'valid') EXECUTE FUNCTION set_status_index();

-- The SHA-256 of every PDF sent out for a certificate. Rendering it again may give other bytes; all of them verify.
CREATE TABLE certificate_documents (
    number       text NOT NULL REFERENCES certificates,
    sha256       bytea NOT NULL CHECK (length(sha256) = 32),
    rendered_at  timestamptz NOT NULL,
    -- The one file that is sent out from now on, if it has a time stamp. A renewal moves it to a row with a new hash.
    pdf          bytea,
    PRIMARY KEY (number, sha256)
);
-- PDFs are compressed already. PostgreSQL 15 does not accept STORAGE in CREATE TABLE.
ALTER TABLE certificate_documents ALTER COLUMN pdf SET STORAGE EXTERNAL;
CREATE INDEX certificate_documents_by_hash ON certificate_documents (sha256);
CREATE UNIQUE INDEX certificate_documents_stored ON certificate_documents (number) WHERE pdf IS NOT NULL;
CREATE INDEX certificate_documents_to_renew ON certificate_documents (rendered_at, number) WHERE pdf IS NOT NULL;

-- Totals of complete orders, updated when an order completes: the cost of a Sustainability page does not grow with the
-- number of orders.
CREATE TABLE retired_totals (
    account_id    text NOT NULL,
    month         date NOT NULL CHECK (extract(day FROM month) = 1),
    bundle_id     text NOT NULL,
    project_id    text NOT NULL,
    -- The names on the latest order of the month.
    bundle_name   text NOT NULL,
    project_name  text NOT NULL,
    project_type  text NOT NULL,
    grams         bigint NOT NULL CHECK (grams > 0),
    PRIMARY KEY (account_id, month, bundle_id, project_id)
);

-- ZIP files with the certificates of a period, made by the worker and kept for some days.
CREATE TABLE audit_packs (
    organisation_id  text NOT NULL REFERENCES organisations,
    mode             mode NOT NULL,
    id               text NOT NULL UNIQUE,
    -- Days of issue, in UTC.
    first_day        date NOT NULL,
    last_day         date NOT NULL CHECK (last_day >= first_day),
    status           text NOT NULL CHECK (status IN ('waiting', 'ready', 'failed')),
    -- Certificates so far, and in all once they are counted.
    done             integer NOT NULL DEFAULT 0 CHECK (done >= 0),
    total            integer CHECK (total >= 0),
    bytes            bigint CHECK (bytes > 0),
    failures         integer NOT NULL DEFAULT 0,
    -- The actor of the audit log.
    requested_by     text NOT NULL,
    created_at       timestamptz NOT NULL,
    -- When a worker makes it, or may take it over from another.
    next_attempt_at  timestamptz CHECK ((next_attempt_at IS NOT NULL) = (status = 'waiting')),
    expires_at       timestamptz NOT NULL,
    PRIMARY KEY (organisation_id, id)
);
CREATE INDEX audit_packs_due ON audit_packs (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX audit_packs_by_expiry ON audit_packs (expires_at);

-- The file in pieces, so that neither side holds all of it in memory.
CREATE TABLE audit_pack_parts (
    organisation_id  text NOT NULL,
    pack_id          text NOT NULL,
    number           integer NOT NULL CHECK (number >= 0),
    content          bytea NOT NULL,
    PRIMARY KEY (organisation_id, pack_id, number),
    FOREIGN KEY (organisation_id, pack_id) REFERENCES audit_packs ON DELETE CASCADE
);
-- ZIP files cannot be compressed further.
ALTER TABLE audit_pack_parts ALTER COLUMN content SET STORAGE EXTERNAL;

-- Totals of valid certificates by vintage and the year (UTC) in which the order was completed, for the Sustainability
-- page: its cost does not grow with the number of orders.
CREATE TABLE retired_vintages (
    account_id           text NOT NULL,
    year                 smallint NOT NULL,
    registry             text NOT NULL,
    registry_project_id  text NOT NULL,
    vintage              smallint NOT NULL,
    grams                bigint NOT NULL CHECK (grams >= 0),
    PRIMARY KEY (account_id, year, registry, registry_project_id, vintage)
);

-- The logos of beneficiaries, as they were when their certificates were issued: a certificate does not change with the
-- account's logo. `sha256` is in the record of the certificate.
CREATE TABLE certificate_logos (
    sha256      bytea PRIMARY KEY CHECK (length(sha256) = 32),
    media_type  text NOT NULL,
    content     bytea NOT NULL
);

-- registries ---------------------------------------------------------------------------------------------------

-- Accounts at registries whose gateways retire credits. Live credits of a registry without an account are retired by
-- hand: of these, a person uploads statements (`desk`).
CREATE TABLE registry_accounts (
    id            text PRIMARY KEY CHECK (id ~ '^[a-z0-9-]{1,40}$'),
    mode          mode NOT NULL,
    adapter       text NOT NULL CHECK (adapter IN ('simulated', 'desk', 'isometric', 'puro')),
    -- When its holdings are compared with the books next, and when they were; why the last look failed.
    next_look_at  timestamptz NOT NULL DEFAULT '-infinity',
    looked_at     timestamptz,
    -- When the holdings were compared one by one. Null: they will be at the next look.
    compared_at   timestamptz,
    problem       text,
    -- What is not retired by the books, and active at the registry, at the last look that worked.
    here_grams    bigint NOT NULL DEFAULT 0,
    there_grams   bigint NOT NULL DEFAULT 0,
    -- Requests in succession without a definite answer. After some, nothing is asked until a look works again.
    failures      integer NOT NULL DEFAULT 0 CHECK (failures >= 0),
    stopped_at    timestamptz,
    -- The last day of the credentials, if it is known.
    expires_on    date,
    UNIQUE (id, mode),
    -- A simulated registry has no credits that anybody could buy.
    CHECK ((adapter = 'simulated') = (id LIKE 'sim-%')),
    CHECK ((adapter = 'desk') = (id LIKE 'desk-%')),
    CHECK (mode = 'test' OR adapter <> 'simulated')
);

-- Requests to retire units of one holding for one beneficiary. Each is recorded before the registry is asked, and the
-- same request may be repeated: the rules are in supply/registries/rules.py.
CREATE TABLE registry_instructions (
    mode                mode NOT NULL,
    id                  text PRIMARY KEY,
    registry_account    text NOT NULL,
    -- Without a foreign key: it would lock the lot, which comes before parcels in the lock order.
    lot_id              text NOT NULL,
    holding_id          text NOT NULL,
    -- The numbers of the units, such as `101 to 300; 351`.
    units               text NOT NULL,
    unit_count          bigint NOT NULL CHECK (unit_count > 0),
    beneficiary         text NOT NULL,
    -- For the public note of the retirement: it says nothing about orders.
    reference           text NOT NULL UNIQUE,
    state               text NOT NULL CHECK (state IN ('recorded', 'asked', 'pending', 'retired', 'declined')),
    -- How many copies of the request may still be on their way.
    in_doubt            smallint NOT NULL DEFAULT 0 CHECK (in_doubt >= 0),
    attempts            smallint NOT NULL DEFAULT 0,
    recorded_at         timestamptz NOT NULL,
    sent_at             timestamptz,
    -- When the registry is asked or looked up next; the end of the lease while a worker does so.
    next_attempt_at     timestamptz,
    registry_reference  text,
    -- The registry's words, or why its answer could not be booked.
    problem             text,
    -- What a person has found out at the registry (JSON), to be approved by another one.
    settlement          text,
    settlement_by       text,
    settlement_at       timestamptz,
    closed_at           timestamptz,
    CHECK ((settlement IS NULL) = (settlement_by IS NULL) AND (settlement IS NULL) = (settlement_at IS NULL)),
    UNIQUE (id, mode),
    FOREIGN KEY (registry_account, mode) REFERENCES registry_accounts (id, mode),
    CHECK (mode = 'test' OR registry_account NOT LIKE 'sim-%'),
    CHECK (state IN ('recorded', 'declined') OR sent_at IS NOT NULL),
    CHECK (state <> 'recorded' OR in_doubt = 0),
    CHECK ((state IN ('retired', 'declined')) = (closed_at IS NOT NULL)),
    CHECK ((closed_at IS NULL) = (next_attempt_at IS NOT NULL))
);
-- Two open requests for one holding could retire its units twice.
CREATE UNIQUE INDEX registry_instructions_open ON registry_instructions (registry_account, holding_id)
    WHERE state IN ('recorded', 'asked', 'pending');
CREATE INDEX registry_instructions_due ON registry_instructions (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX registry_instructions_of_lot ON registry_instructions (mode, lot_id, closed_at);
CREATE INDEX registry_instructions_settled ON registry_instructions (mode, settlement_at, id)
    WHERE settlement IS NOT NULL AND next_attempt_at IS NOT NULL;
-- With the mode, so that no test retirement is booked for live credits.
ALTER TABLE parcels ADD FOREIGN KEY (instruction_id, mode) REFERENCES registry_instructions (id, mode);

-- Where a registry contradicts the books. A difference that is seen once may be under way.
CREATE TABLE registry_drifts (
    mode              mode NOT NULL,
    id                text PRIMARY KEY,
    registry_account  text NOT NULL,
    -- difference: of a lot. surplus: what the account has and no lot. refused: the registry has fewer units than were
    -- asked for. invalid: it has retired units of a lot that was invalidated meanwhile.
    cause             text NOT NULL CHECK (cause IN ('difference', 'surplus', 'refused', 'invalid')),
    lot_id            text,
    -- Of a surplus.
    holding_id        text,
    -- In our books, and not at the registry; below 0 the other way round.
    units             bigint NOT NULL CHECK (units <> 0),
    unit_grams        bigint NOT NULL,
    seen_at           timestamptz NOT NULL,
    confirmed_at      timestamptz,
    -- explained: the difference stays, and is expected from now on. corrected: it should be gone.
    resolution        text CHECK (resolution IN ('explained', 'corrected')),
    closed_at         timestamptz,
    closed_by         text,
    closed_reason     text CHECK (length(closed_reason) BETWEEN 1 AND 500),
    FOREIGN KEY (registry_account, mode) REFERENCES registry_accounts (id, mode),
    CHECK ((cause = 'surplus') = (lot_id IS NULL) AND (cause = 'surplus') = (holding_id IS NOT NULL)),
    CHECK ((closed_at IS NULL) = (resolution IS NULL) AND (closed_at IS NULL) = (closed_reason IS NULL)),
    CHECK ((closed_at IS NULL) = (closed_by IS NULL))
);
CREATE UNIQUE INDEX registry_drifts_open ON registry_drifts (registry_account, (coalesce(lot_id, holding_id)))
    WHERE closed_at IS NULL;

-- The books of the simulated registries. `active` are the units that are not retired.
CREATE TABLE simulated_holdings (
    registry_account text NOT NULL CHECK (registry_account LIKE 'sim-%'),
    id               text NOT NULL,
    lot_id           text NOT NULL,
    active           int8multirange NOT NULL,
    -- A holding of `sim-holding` is used by one retirement. What is left of it is a new holding.
    is_used          boolean NOT NULL DEFAULT false,
    parent_id        text,
    -- What was active at first.
    deposited        int8multirange,
    PRIMARY KEY (registry_account, id)
);
CREATE INDEX simulated_holdings_of_lot ON simulated_holdings (lot_id);

CREATE TABLE simulated_retirements (
    registry_account   text NOT NULL CHECK (registry_account LIKE 'sim-%'),
    key          text NOT NULL,
    reference    text NOT NULL,
    holding_id   text NOT NULL,
    units        int8multirange NOT NULL,
    beneficiary  text NOT NULL,
    -- `lost` requests never arrive, `late` ones after the next look-up. What is pending is `later` at the next look-up.
    state        text NOT NULL CHECK (state IN ('lost', 'late', 'pending', 'retired', 'declined')),
    later        text CHECK (later IN ('retired', 'declined')),
    code         text,
    message      text,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (registry_account, key)
);
CREATE INDEX simulated_retirements_of_holding ON simulated_retirements (registry_account, holding_id);
