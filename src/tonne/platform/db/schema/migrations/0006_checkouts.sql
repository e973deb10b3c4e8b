-- compatible_from: 1
-- Checkouts created by a server, signed links, the exact offer that a person saw, and test mails that are held back.

-- gateways -----------------------------------------------------------------------------------------------------

-- Why a mail is kept and never sent. Null: it is sent.
ALTER TABLE mails ADD COLUMN held_reason text CHECK (held_reason IS NULL OR (next_attempt_at IS NULL AND sent_at IS NULL));
CREATE INDEX mails_newest_first ON mails (created_at DESC, id DESC);

-- accounts -----------------------------------------------------------------------------------------------------

-- In test mode, customers get mail only at these addresses and at those of the organisation's admins.
CREATE TABLE test_mail_addresses (
    organisation_id  text NOT NULL REFERENCES organisations,
    email            text NOT NULL CHECK (length(email) BETWEEN 3 AND 254),
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (organisation_id, email)
);

-- checkout -----------------------------------------------------------------------------------------------------

-- The secret that signs queries, sealed. Null: the link is older than signed queries. After a rotation, the old one stays
-- valid for a while.
ALTER TABLE offset_links
    ADD COLUMN secret_box bytea,
    ADD COLUMN old_secret_box bytea,
    ADD COLUMN old_secret_until timestamptz,
    ADD CHECK ((old_secret_box IS NULL) = (old_secret_until IS NULL));

-- With total_cost_minor, the offer last shown to the customer. Null: the checkout is older than these columns.
ALTER TABLE checkouts
    ADD COLUMN quantity_grams bigint CHECK (quantity_grams > 0),
    ADD COLUMN offer_digest bytea CHECK (length(offer_digest) = 32),
    -- Whether the external id comes from the client: from the API or from a signed query. Otherwise anyone may have typed it.
    ADD COLUMN is_verified boolean NOT NULL DEFAULT false,
    -- Only for checkouts that the API created: the sealed token, and the fields of the request.
    ADD COLUMN token_box bytea,
    ADD COLUMN idempotency_key text CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    ADD COLUMN request_digest bytea CHECK (length(request_digest) = 32),
    ADD COLUMN metadata text,
    ADD CHECK (num_nulls(token_box, idempotency_key, request_digest, metadata) IN (0, 4)),
    -- The address is erased when a checkout closes without an order.
    ALTER COLUMN email DROP NOT NULL,
    ADD CHECK (email IS NOT NULL OR status = 'closed');

-- An unverified external id claims nothing.
DROP INDEX checkouts_once;
CREATE UNIQUE INDEX checkouts_once ON checkouts (account_id, offset_link_id, external_id)
    WHERE external_id IS NOT NULL AND is_verified AND status = 'ordered';
CREATE UNIQUE INDEX checkouts_by_key ON checkouts (account_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX checkouts_newest_first ON checkouts (account_id, created_at DESC, id DESC) WHERE token_box IS NOT NULL;
