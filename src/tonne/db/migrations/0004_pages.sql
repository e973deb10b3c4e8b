-- What end customers and the public see: offset links, checkouts, Sustainability pages.

-- Where an organisation's checkouts may send people afterwards.
CREATE TABLE redirect_hosts (
    organisation_id  text NOT NULL REFERENCES organisations,
    host             text NOT NULL CHECK (host = lower(host) AND length(host) BETWEEN 1 AND 253),
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (organisation_id, host)
);

-- Its id is the secret: whoever has the address may pay there.
CREATE TABLE offset_links (
    account_id             text NOT NULL,
    id                     text NOT NULL UNIQUE,
    organisation_id        text NOT NULL,
    mode                   mode NOT NULL,
    title                  text NOT NULL CHECK (length(title) BETWEEN 1 AND 200),
    message                text NOT NULL DEFAULT '' CHECK (length(message) <= 2000),
    -- The bundles on offer; null for the account's own selection.
    bundle_selection       jsonb,
    -- What the form starts with: at most one of the two, and all there is when it cannot be edited.
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
    PRIMARY KEY (account_id, id),
    FOREIGN KEY (organisation_id, mode, account_id) REFERENCES accounts (organisation_id, mode, id),
    CHECK (preset_quantity_grams IS NULL OR preset_value_minor IS NULL),
    CHECK (amount_editable OR preset_quantity_grams IS NOT NULL OR preset_value_minor IS NOT NULL),
    CHECK (min_quantity_grams <= max_quantity_grams),
    CHECK (min_value_minor <= max_value_minor)
);
CREATE INDEX offset_links_newest_first ON offset_links (account_id, created_at DESC, id DESC);

-- One person's way through the payment page. The token in its address is stored hashed, like the temporary id that is
-- made from it.
CREATE TABLE checkouts (
    account_id                text NOT NULL,
    id                        text NOT NULL UNIQUE,
    organisation_id           text NOT NULL,
    mode                      mode NOT NULL,
    offset_link_id            text NOT NULL,
    token_hash                bytea NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    temporary_id_hash         bytea NOT NULL UNIQUE CHECK (length(temporary_id_hash) = 32),
    -- open: chosen, nothing ordered. ordered: there is an order, to be paid or paid. closed: given up, or run out.
    status                    text NOT NULL CHECK (status IN ('open', 'ordered', 'closed')),
    requested_quantity_grams  bigint CHECK (requested_quantity_grams > 0),
    requested_value_minor     bigint CHECK (requested_value_minor > 0),
    bundle_selection          jsonb,
    -- What the person was shown last: nothing else is ever charged.
    total_cost_minor          bigint NOT NULL CHECK (total_cost_minor > 0),
    currency                  currency NOT NULL,
    email                     text NOT NULL CHECK (length(email) BETWEEN 3 AND 254),
    external_id               text CHECK (length(external_id) BETWEEN 1 AND 255),
    redirect_url              text,
    redirect_label            text,
    order_id                  text,
    created_at                timestamptz NOT NULL,
    expires_at                timestamptz NOT NULL,
    -- When a worker looks at it next: to close it, or to mail the certificate. Null when nothing is left to do.
    next_attempt_at           timestamptz,
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, order_id),
    FOREIGN KEY (account_id, offset_link_id) REFERENCES offset_links,
    FOREIGN KEY (account_id, order_id) REFERENCES orders,
    CHECK ((requested_quantity_grams IS NULL) <> (requested_value_minor IS NULL)),
    CHECK (status <> 'open' OR order_id IS NULL),
    CHECK (status <> 'ordered' OR order_id IS NOT NULL)
);
-- With an external id a flow completes at most once.
CREATE UNIQUE INDEX checkouts_once ON checkouts (account_id, offset_link_id, external_id)
    WHERE external_id IS NOT NULL AND status = 'ordered';
CREATE INDEX checkouts_due ON checkouts (next_attempt_at) WHERE next_attempt_at IS NOT NULL;

-- Sustainability pages -----------------------------------------------------------------------------------------

CREATE TABLE sustainability_pages (
    account_id       text PRIMARY KEY,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    slug             text NOT NULL,
    enabled          boolean NOT NULL,
    title            text NOT NULL CHECK (length(title) BETWEEN 1 AND 200),
    description      text NOT NULL DEFAULT '' CHECK (length(description) <= 2000),
    sections         text[] NOT NULL CHECK (
                         sections <@ ARRAY ['bundles_breakdown', 'certificates', 'projects', 'timeline']),
    logo             bytea CHECK (length(logo) <= 131072),
    logo_media_type  text CHECK (logo_media_type IN ('image/png', 'image/jpeg', 'image/webp')),
    updated_at       timestamptz NOT NULL,
    FOREIGN KEY (organisation_id, mode, account_id) REFERENCES accounts (organisation_id, mode, id),
    CHECK ((logo IS NULL) = (logo_media_type IS NULL))
);
-- Every slug a page ever had: an old one leads to the page, and is nobody else's.
CREATE TABLE sustainability_slugs (
    mode        mode NOT NULL,
    slug        text NOT NULL CHECK (slug ~ '^[a-z0-9]+(-[a-z0-9]+)*$' AND length(slug) BETWEEN 3 AND 60),
    account_id  text NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (mode, slug)
);
CREATE INDEX sustainability_slugs_of_account ON sustainability_slugs (account_id);
ALTER TABLE sustainability_pages ADD FOREIGN KEY (mode, slug) REFERENCES sustainability_slugs;

-- What complete orders add up to, counted when they complete: a page costs the same after ten million orders.
CREATE TABLE retired_totals (
    account_id    text NOT NULL,
    month         date NOT NULL CHECK (extract(day FROM month) = 1),
    bundle_id     text NOT NULL,
    project_id    text NOT NULL,
    -- As the latest of its orders names them.
    bundle_name   text NOT NULL,
    project_name  text NOT NULL,
    project_type  text NOT NULL,
    grams         bigint NOT NULL CHECK (grams > 0),
    PRIMARY KEY (account_id, month, bundle_id, project_id)
);
-- Orders that are complete already.
INSERT INTO retired_totals (account_id, month, bundle_id, project_id, bundle_name, project_name, project_type, grams)
SELECT certificate.account_id, date_trunc('month', certificate.issued_at AT TIME ZONE 'UTC')::date, line.bundle_id,
       project.project_id, (array_agg(line.bundle_name ORDER BY certificate.issued_at DESC))[1],
       (array_agg(project.project_name ORDER BY certificate.issued_at DESC))[1],
       (array_agg(project.project_type ORDER BY certificate.issued_at DESC))[1], sum(project.quantity_grams)
FROM certificates certificate
JOIN order_projects project USING (account_id, order_id)
JOIN order_lines line ON line.account_id = project.account_id AND line.order_id = project.order_id
    AND line.position = project.line_position
GROUP BY 1, 2, 3, 4;
CREATE INDEX certificates_newest_first ON certificates (account_id, issued_at DESC, number DESC);
