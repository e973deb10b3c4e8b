-- compatible_from: 1
-- Links in mails: the page of an order, and the page on which a payer confirms payments or updates a card.

-- accounts -----------------------------------------------------------------------------------------------------

-- Who gets a receipt for each order that is paid by the stored card, and who is mailed about problems with the card.
-- Without card_email, the admins of the organisation are.
ALTER TABLE accounts
    ADD COLUMN receipt_email text CHECK (length(receipt_email) <= 254),
    ADD COLUMN card_email text CHECK (length(card_email) <= 254);

-- orders -------------------------------------------------------------------------------------------------------

-- For mails about orders that failed since the last mail.
CREATE INDEX orders_failed ON orders (account_id, status_changed_at) WHERE status = 'failed';

-- receipts -----------------------------------------------------------------------------------------------------

-- The page of an order is found by the hash of the token in its URL. The sealed token is for later mails.
CREATE TABLE order_links (
    account_id       text NOT NULL,
    order_id         text NOT NULL,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    token_hash       bytea NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    token_box        bytea NOT NULL,
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (account_id, order_id),
    FOREIGN KEY (account_id, order_id) REFERENCES orders
);
CREATE INDEX order_links_by_order ON order_links (order_id);

-- cards --------------------------------------------------------------------------------------------------------

-- Until when the payer may confirm a pending charge. Null: no confirmation was asked for.
ALTER TABLE charges ADD COLUMN confirm_until timestamptz;
CREATE INDEX charges_to_confirm ON charges (account_id) WHERE status = 'pending' AND confirm_until IS NOT NULL;

-- The page on which the payer of an account confirms payments and updates the card, and when the payer is mailed.
CREATE TABLE card_links (
    account_id       text PRIMARY KEY,
    organisation_id  text NOT NULL,
    mode             mode NOT NULL,
    -- Null until the first mail.
    token_hash       bytea UNIQUE CHECK (length(token_hash) = 32),
    token_box        bytea,
    created_at       timestamptz NOT NULL,
    -- When mail_card_problems looks at it next. Null: there is nothing to tell.
    next_mail_at     timestamptz,
    mailed_at        timestamptz,
    -- The gateway's page on which the payer is entering a card, and when it is looked up next.
    session_id       text,
    next_check_at    timestamptz,
    FOREIGN KEY (organisation_id, mode, account_id) REFERENCES accounts (organisation_id, mode, id),
    CHECK ((token_hash IS NULL) = (token_box IS NULL)),
    CHECK (next_check_at IS NULL OR session_id IS NOT NULL)
);
CREATE INDEX card_links_to_mail ON card_links (next_mail_at) WHERE next_mail_at IS NOT NULL;
CREATE INDEX card_links_to_check ON card_links (next_check_at) WHERE next_check_at IS NOT NULL;

-- refunds ------------------------------------------------------------------------------------------------------

-- When mail_refunds mails the payer, once the refund has succeeded. Null: mailed.
ALTER TABLE refunds ADD COLUMN next_mail_at timestamptz DEFAULT '-infinity';
UPDATE refunds SET next_mail_at = NULL;
CREATE INDEX refunds_to_mail ON refunds (next_mail_at) WHERE next_mail_at IS NOT NULL AND state = 'succeeded';
