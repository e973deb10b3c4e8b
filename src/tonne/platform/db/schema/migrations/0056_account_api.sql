-- compatible_from: 34
-- transaction: none
-- Accounts and their pages by API.

-- accounts -----------------------------------------------------------------------------------------------------

ALTER TABLE accounts
    -- False: the beneficiary is the account's name.
    ADD COLUMN IF NOT EXISTS has_own_beneficiary boolean NOT NULL DEFAULT true,
    ADD COLUMN IF NOT EXISTS handle text,
    ADD COLUMN IF NOT EXISTS external_pages_visibility text NOT NULL DEFAULT 'public',
    -- The account of the other mode that was opened together with this one.
    ADD COLUMN IF NOT EXISTS sibling_id text,
    ADD COLUMN IF NOT EXISTS idempotency_key text,
    ADD COLUMN IF NOT EXISTS reference text,
    -- Since then nothing new is ordered.
    ADD COLUMN IF NOT EXISTS archived_at timestamptz,
    -- Earlier logos are in `sustainability_pages` only.
    ADD COLUMN IF NOT EXISTS logo bytea,
    ADD COLUMN IF NOT EXISTS logo_media_type text,
    ADD COLUMN IF NOT EXISTS logo_version text;

CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS accounts_by_handle
    ON accounts (organisation_id, mode, lower(handle)) WHERE handle IS NOT NULL;
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS accounts_by_idempotency_key
    ON accounts (organisation_id, mode, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- estimates ----------------------------------------------------------------------------------------------------

-- Counts and adds up the estimates of an account without reading its rows.
CREATE INDEX CONCURRENTLY IF NOT EXISTS estimates_summed ON estimates (account_id) INCLUDE (mass_grams);

-- orders -------------------------------------------------------------------------------------------------------

-- Adds up what an account has paid for complete orders, without reading its rows.
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_complete_cost
    ON orders (account_id) INCLUDE (total_cost_minor, refunded_minor) WHERE status = 'complete';

-- sustainability -----------------------------------------------------------------------------------------------

ALTER TABLE sustainability_pages
    -- What the total is shown in: `by_volume` or `by_price`.
    ADD COLUMN IF NOT EXISTS title_format text NOT NULL DEFAULT 'by_volume',
    -- `by_custom_description` shows `description`, if there is one.
    ADD COLUMN IF NOT EXISTS description_format text NOT NULL DEFAULT 'by_custom_description';

ALTER TABLE sustainability_pages
    DROP CONSTRAINT IF EXISTS sustainability_pages_sections_check,
    ADD CONSTRAINT sustainability_pages_sections_check CHECK (
        sections <@ ARRAY ['bundles_breakdown', 'certificates', 'projects', 'timeline', 'unsdg']) NOT VALID;
ALTER TABLE sustainability_pages VALIDATE CONSTRAINT sustainability_pages_sections_check;
