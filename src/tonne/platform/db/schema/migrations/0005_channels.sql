-- compatible_from: 6

-- webhooks -----------------------------------------------------------------------------------------------------

-- A webhook reads its organisation's event stream with a cursor.
CREATE TABLE webhooks (
    organisation_id     text NOT NULL,
    mode                mode NOT NULL,
    id                  text NOT NULL UNIQUE,
    url                 text NOT NULL CHECK (length(url) <= 2048),
    enabled             boolean NOT NULL DEFAULT true,
    -- Empty: all accounts of the organisation in this mode.
    account_ids         text[] NOT NULL DEFAULT '{}',
    created_at          timestamptz NOT NULL,
    deleted_at          timestamptz,
    secret_box          bytea NOT NULL,
    secret_last_four    text NOT NULL CHECK (length(secret_last_four) = 4),
    -- After a rotation requests also carry the signatures of replaced secrets, each until its time: at most two.
    old_secret_box      bytea,
    old_secret_until    timestamptz,
    older_secret_box    bytea,
    older_secret_until  timestamptz,

    -- Every event up to this position was acknowledged, was skipped, is out of scope, or belongs to a parked account.
    cursor_position     bigint NOT NULL,
    -- How often the first event after the cursor was refused when sent alone.
    head_refusals       integer NOT NULL DEFAULT 0,
    batch_limit         integer NOT NULL DEFAULT 100 CHECK (batch_limit BETWEEN 1 AND 100),
    failures            integer NOT NULL DEFAULT 0,
    failing_since       timestamptz,
    alerts_sent         smallint NOT NULL DEFAULT 0,
    next_attempt_at     timestamptz NOT NULL,
    last_attempt_at     timestamptz,

    -- Counters for the metrics, never reset.
    acknowledged_count  bigint NOT NULL DEFAULT 0,
    refused_count       bigint NOT NULL DEFAULT 0,

    -- A worker leases the webhook until lease_until. The token fences it off afterwards: only the holder of the newest
    -- token may store a result. Any change of the registration increments the version; the result of a request in
    -- flight is then discarded and its events are sent again.
    lease_token         bigint NOT NULL DEFAULT 0,
    lease_until         timestamptz,
    -- The process id of the database session for which a worker keeps the lease while nothing waits. Once the session
    -- is gone, others may take it.
    lease_keeper        integer,
    version             bigint NOT NULL DEFAULT 1,
    -- Where the next round of probes continues, while no account's event is accepted; 0 starts again at the cursor.
    probe_after         bigint,
    -- An event ahead of the cursor that the receiver accepted as a probe: a request that should succeed.
    accepted_probe      bigint,
    -- When waiting events are due. Null: no event waits, so only new ones make the webhook due.
    due_at              timestamptz,
    -- The types of events that the webhook gets. Empty: the seven that report the status of an order.
    event_types         text[] NOT NULL DEFAULT '{}',
    -- Whether a 410 of the receiver disables it. Otherwise its events are sent again, as after any other refusal.
    disable_on_gone     boolean NOT NULL DEFAULT false,
    -- Whether requests also have the headers of Standard Webhooks: signing them takes as long as sending them.
    standard_webhooks   boolean NOT NULL DEFAULT false,
    -- Why Tonne has disabled it; null if a person did, or if it is enabled.
    disabled_reason     text,
    PRIMARY KEY (organisation_id, mode, id),
    FOREIGN KEY (organisation_id, mode) REFERENCES organisation_modes
) WITH (fillfactor = 50);
CREATE INDEX webhooks_in_use ON webhooks (organisation_id, mode) WHERE deleted_at IS NULL;
CREATE INDEX webhooks_due ON webhooks (due_at) WHERE due_at IS NOT NULL AND enabled AND deleted_at IS NULL;
CREATE INDEX webhooks_disabled ON webhooks (organisation_id, mode) WHERE NOT enabled AND deleted_at IS NULL;

-- A worker that keeps the lease of a webhook hears of every change before it hears of a later event.
CREATE FUNCTION announce_changed_webhook() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('tonne_events', json_build_object(
        'kinds', json_build_array('events'),
        'changed', json_build_array(json_build_array(NEW.organisation_id, NEW.mode)))::text);
    RETURN NULL;
END
$$;
CREATE TRIGGER changed_webhooks_are_announced AFTER INSERT OR UPDATE OF version, secret_box ON webhooks
    FOR EACH ROW EXECUTE FUNCTION announce_changed_webhook();

-- The accounts in scope of a webhook from a position on. A change of the scope adds a row, so it applies to later
-- events only.
CREATE TABLE webhook_scopes (
    organisation_id  text NOT NULL,
    webhook_id       text NOT NULL,
    from_position    bigint NOT NULL,
    account_ids      text[] NOT NULL,
    event_types      text[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (organisation_id, webhook_id, from_position)
);

-- Accounts whose next event the receiver keeps refusing while it acknowledges others: only their events wait.
CREATE TABLE webhook_parked (
    organisation_id  text NOT NULL,
    webhook_id       text NOT NULL,
    account_id       text NOT NULL,
    -- The refused event. The account's events from here on are delivered separately from the others.
    position         bigint NOT NULL,
    refusals         integer NOT NULL,
    parked_at        timestamptz NOT NULL,
    alerts_sent      smallint NOT NULL DEFAULT 0,
    next_attempt_at  timestamptz NOT NULL,
    -- The webhook is disabled or deleted.
    suspended        boolean NOT NULL DEFAULT false,
    PRIMARY KEY (organisation_id, webhook_id, account_id)
);
CREATE INDEX webhook_parked_due ON webhook_parked (next_attempt_at) WHERE NOT suspended;

-- Events that a person decided to skip. Rewinding the webhook to an earlier position sends them again.
CREATE TABLE webhook_skips (
    organisation_id  text NOT NULL,
    webhook_id       text NOT NULL,
    position         bigint NOT NULL,
    skipped_at       timestamptz NOT NULL,
    skipped_by       text NOT NULL,
    PRIMARY KEY (organisation_id, webhook_id, position)
);

-- The requests sent to receivers, deleted after a while. Partitioned by month, as `events` is.
CREATE TABLE webhook_attempts (
    organisation_id  text NOT NULL,
    webhook_id       text NOT NULL,
    id               text NOT NULL,
    at               timestamptz NOT NULL,
    positions        bigint[] NOT NULL,
    -- The HTTP status, or null with an error if there was no response.
    status           smallint,
    error            text,
    acknowledged     boolean NOT NULL,
    duration_ms      integer NOT NULL,
    answer           text
) PARTITION BY RANGE (at);
-- The primary key is also the order in which attempts are listed.
CREATE TABLE webhook_attempts_default PARTITION OF webhook_attempts (
    PRIMARY KEY (organisation_id, webhook_id, at, id)
) DEFAULT;
CREATE INDEX ON webhook_attempts_default USING brin (at);

-- public_pages -------------------------------------------------------------------------------------------------

-- Every slug a page ever had. An old slug redirects to the page and cannot be taken by another account.
CREATE TABLE sustainability_slugs (
    mode        mode NOT NULL,
    slug        text NOT NULL CHECK (slug ~ '^[a-z0-9]+(-[a-z0-9]+)*$' AND length(slug) BETWEEN 3 AND 60),
    account_id  text NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (mode, slug)
);
CREATE INDEX sustainability_slugs_of_account ON sustainability_slugs (account_id);

-- The public Sustainability page of an account.
CREATE TABLE sustainability_pages (
    account_id          text PRIMARY KEY,
    organisation_id     text NOT NULL,
    mode                mode NOT NULL,
    slug                text NOT NULL,
    enabled             boolean NOT NULL,
    title               text NOT NULL CHECK (length(title) BETWEEN 1 AND 200),
    description         text NOT NULL DEFAULT '' CHECK (length(description) <= 2000),
    sections            text[] NOT NULL CHECK (sections <@ ARRAY [
                            'bundles_breakdown', 'certificates', 'history', 'projects', 'timeline', 'unsdg']),
    updated_at          timestamptz NOT NULL,
    -- What the total is shown in: `by_volume` or `by_price`.
    title_format        text NOT NULL DEFAULT 'by_volume',
    -- `by_custom_description` shows `description`, if there is one.
    description_format  text NOT NULL DEFAULT 'by_custom_description',
    FOREIGN KEY (organisation_id, mode, account_id) REFERENCES accounts (organisation_id, mode, id),
    FOREIGN KEY (mode, slug) REFERENCES sustainability_slugs
);

-- checkout -----------------------------------------------------------------------------------------------------

-- Public payment pages. The id is the secret: everyone who knows the URL can pay there.
CREATE TABLE offset_links (
    account_id             text NOT NULL,
    id                     text NOT NULL UNIQUE,
    organisation_id        text NOT NULL,
    mode                   mode NOT NULL,
    title                  text NOT NULL CHECK (length(title) BETWEEN 1 AND 200),
    message                text NOT NULL DEFAULT '' CHECK (length(message) <= 2000),
    -- The bundles on offer; null means the account's own selection.
    bundle_selection       jsonb,
    -- The initial amount of the form: at most one of the two, and required if the amount cannot be edited.
    preset_quantity_grams  bigint CHECK (preset_quantity_grams > 0),
    preset_value_minor     bigint CHECK (preset_value_minor > 0),
    amount_editable        boolean NOT NULL DEFAULT true,
    min_quantity_grams     bigint CHECK (min_quantity_grams > 0),
    max_quantity_grams     bigint CHECK (max_quantity_grams > 0),
    min_value_minor        bigint CHECK (min_value_minor > 0),
    max_value_minor        bigint CHECK (max_value_minor > 0),
    redirect_url           text,
    redirect_label         text CHECK (length(redirect_label) BETWEEN 1 AND 100),
    enabled                boolean NOT NULL DEFAULT true,
    expires_at             timestamptz,
    created_at             timestamptz NOT NULL,
    -- The secret that signs queries, sealed. After a rotation, the old one stays valid for a while.
    secret_box             bytea,
    old_secret_box         bytea,
    old_secret_until       timestamptz,
    -- Whether the certificate is in the account's name, or in that of the customer, who may enter it.
    beneficiary            text NOT NULL DEFAULT 'account' CHECK (beneficiary IN ('account', 'customer')),
    -- The language of the page for visitors whose browser names none of ours. Null: the account's.
    language               text,
    PRIMARY KEY (account_id, id),
    FOREIGN KEY (organisation_id, mode, account_id) REFERENCES accounts (organisation_id, mode, id),
    CHECK (preset_quantity_grams IS NULL OR preset_value_minor IS NULL),
    CHECK (amount_editable OR preset_quantity_grams IS NOT NULL OR preset_value_minor IS NOT NULL),
    CHECK (min_quantity_grams <= max_quantity_grams),
    CHECK (min_value_minor <= max_value_minor),
    CHECK ((old_secret_box IS NULL) = (old_secret_until IS NULL))
);
CREATE INDEX offset_links_newest_first ON offset_links (account_id, created_at, id);

-- One customer's visit to a payment page. The token in its URL and the temporary id derived from it are stored hashed.
CREATE TABLE checkouts (
    account_id                text NOT NULL,
    id                        text NOT NULL UNIQUE,
    organisation_id           text NOT NULL,
    mode                      mode NOT NULL,
    offset_link_id            text NOT NULL,
    token_hash                bytea NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    temporary_id_hash         bytea NOT NULL UNIQUE CHECK (length(temporary_id_hash) = 32),
    -- open: amount chosen, no order yet. ordered: has an order, paid or unpaid. closed: cancelled or expired.
    status                    text NOT NULL CHECK (status IN ('open', 'ordered', 'closed')),
    requested_quantity_grams  bigint CHECK (requested_quantity_grams > 0),
    requested_value_minor     bigint CHECK (requested_value_minor > 0),
    bundle_selection          jsonb,
    -- The total last shown to the customer. No other amount is charged.
    total_cost_minor          bigint NOT NULL CHECK (total_cost_minor > 0),
    currency                  currency NOT NULL,
    -- The address is erased when a checkout closes without an order.
    email                     text CHECK (length(email) BETWEEN 3 AND 254),
    external_id               text CHECK (length(external_id) BETWEEN 1 AND 255),
    redirect_url              text,
    redirect_label            text,
    order_id                  text,
    created_at                timestamptz NOT NULL,
    expires_at                timestamptz NOT NULL,
    -- When close_checkouts looks at it next. Null: paid or closed.
    next_close_at             timestamptz,
    -- When mail_certificates looks at it next. Null: no order yet, mailed, or closed.
    next_mail_at              timestamptz,
    -- With total_cost_minor, the offer last shown to the customer.
    quantity_grams            bigint CHECK (quantity_grams > 0),
    offer_digest              bytea CHECK (length(offer_digest) = 32),
    -- Whether the external id comes from the client: from the API or from a signed query. Otherwise anyone may have
    -- typed it.
    external_id_verified      boolean NOT NULL DEFAULT false,
    reference                 text CHECK (length(reference) BETWEEN 1 AND 200),
    -- Only for checkouts that the API created: the sealed token, and the fields of the request.
    token_box                 bytea,
    idempotency_key           text CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    request_digest            bytea CHECK (length(request_digest) = 32),
    metadata                  text,
    -- On top of total_cost_minor.
    tax_minor                 bigint NOT NULL DEFAULT 0,
    -- The name that the customer entered or the API client sent. Null: the account's. Erased with the address.
    beneficiary_name          text CHECK (length(beneficiary_name) BETWEEN 1 AND 200),
    beneficiary_kind          text CHECK (beneficiary_kind IN ('organisation', 'person')),
    beneficiary_is_public     boolean NOT NULL DEFAULT false,
    -- What the client sent of the buyer, for the tax document. Erased with the address.
    buyer                     jsonb,
    -- As whom the customer ordered, and which text they agreed to. Null: not asked.
    buyer_kind                text,
    consent_version           text,
    consent_language          text,
    consented_at              timestamptz,
    -- The API created it, or a signed query has its amount and external id: its customer cannot make more of them.
    is_vouched_for            boolean NOT NULL DEFAULT false,
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, order_id),
    FOREIGN KEY (account_id, offset_link_id) REFERENCES offset_links,
    FOREIGN KEY (account_id, order_id) REFERENCES orders,
    CHECK ((requested_quantity_grams IS NULL) <> (requested_value_minor IS NULL)),
    CHECK (status <> 'open' OR order_id IS NULL),
    CHECK (status <> 'ordered' OR order_id IS NOT NULL),
    CHECK (num_nulls(token_box, idempotency_key, request_digest, metadata) IN (0, 4)),
    CHECK (email IS NOT NULL OR status = 'closed'),
    CHECK (
        (beneficiary_name IS NULL) = (beneficiary_kind IS NULL)
        AND (beneficiary_kind = 'person' OR NOT beneficiary_is_public))
);
CREATE INDEX checkouts_to_close ON checkouts (next_close_at) WHERE next_close_at IS NOT NULL;
CREATE INDEX checkouts_to_mail ON checkouts (next_mail_at) WHERE next_mail_at IS NOT NULL;
-- A flow with an external id completes at most once. An unverified external id claims nothing.
CREATE UNIQUE INDEX checkouts_once ON checkouts (account_id, offset_link_id, external_id)
    WHERE external_id IS NOT NULL AND external_id_verified AND status = 'ordered';
CREATE UNIQUE INDEX checkouts_by_key ON checkouts (account_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX checkouts_newest_first ON checkouts (account_id, created_at, id) WHERE token_box IS NOT NULL;

-- Every text that a customer has agreed to. It never changes: a new wording has a new version.
CREATE TABLE consent_texts (
    -- Derived from language and text.
    version     text PRIMARY KEY,
    language    text NOT NULL,
    text        text NOT NULL,
    created_at  timestamptz NOT NULL
);

-- Buyers who ask for the links of their orders, also with unknown addresses. Removed an hour after the answer.
CREATE TABLE order_requests (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    email        text NOT NULL,
    language     text NOT NULL,
    created_at   timestamptz NOT NULL,
    answered_at  timestamptz
);

-- How often the pages of an offset link were opened, how many checkouts were begun, and what was paid, by day (UTC).
-- Nothing about the people who did it. Counts are appended to `offset_link_deltas`, so that no page and no payment
-- updates a shared row; a worker moves them to `offset_link_days`. Both are always read together.
CREATE TABLE offset_link_days (
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    account_id       text NOT NULL,
    offset_link_id   text NOT NULL,
    day              date NOT NULL,
    opened           bigint NOT NULL,
    begun            bigint NOT NULL,
    paid             bigint NOT NULL,
    paid_grams       bigint NOT NULL,
    -- With tax, in the currency of the account. Refunds are not subtracted.
    paid_minor       bigint NOT NULL,
    PRIMARY KEY (account_id, offset_link_id, day),
    FOREIGN KEY (account_id, offset_link_id) REFERENCES offset_links
);
CREATE INDEX offset_link_days_of_account ON offset_link_days (account_id, day);

-- No foreign key: it would cost a lookup for every payment.
CREATE TABLE offset_link_deltas (
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    account_id       text NOT NULL,
    offset_link_id   text NOT NULL,
    id               bigint GENERATED ALWAYS AS IDENTITY,
    day              date NOT NULL,
    opened           bigint NOT NULL DEFAULT 0,
    begun            bigint NOT NULL DEFAULT 0,
    paid             bigint NOT NULL DEFAULT 0,
    paid_grams       bigint NOT NULL DEFAULT 0,
    paid_minor       bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (account_id, offset_link_id, id)
);
