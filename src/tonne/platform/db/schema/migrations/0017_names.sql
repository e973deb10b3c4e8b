-- Without compatible_from: an older release expects one certificate per order.

-- orders -------------------------------------------------------------------------------------------------------

-- The name on the certificate now comes from the order. Older orders have it only in their shares.
UPDATE orders SET beneficiary = held.beneficiary
FROM (SELECT account_id, order_id, min(beneficiary) AS beneficiary FROM shares GROUP BY account_id, order_id) held
WHERE orders.beneficiary IS NULL AND orders.account_id = held.account_id AND orders.id = held.order_id;
-- Whether the person agreed to be named in public. Has no effect for organisations.
ALTER TABLE orders ADD COLUMN beneficiary_is_public boolean NOT NULL DEFAULT false;

-- retirements --------------------------------------------------------------------------------------------------

COMMENT ON COLUMN shares.beneficiary IS 'The name at the registry. It is not the name of a person.';

-- A certificate may be replaced by another one of the same order, or withdrawn. Numbers and records never change.
ALTER TABLE certificates
    ADD COLUMN state text NOT NULL DEFAULT 'valid' CHECK (state IN ('valid', 'replaced', 'withdrawn')),
    ADD COLUMN replaces text UNIQUE REFERENCES certificates (number),
    -- Deferred: the old certificate is updated before the new one is inserted.
    ADD COLUMN replaced_by text UNIQUE REFERENCES certificates (number) DEFERRABLE INITIALLY DEFERRED,
    -- Why it is no longer valid, and since when.
    ADD COLUMN state_reason text CHECK (length(state_reason) BETWEEN 1 AND 500),
    ADD COLUMN state_changed_at timestamptz,
    -- False for the name of a person who did not agree to be named in public.
    ADD COLUMN is_public boolean NOT NULL DEFAULT true,
    -- When a worker tells the customer about a replaced or withdrawn certificate. Set on the one that the mail is about.
    ADD COLUMN next_mail_at timestamptz,
    ADD CONSTRAINT certificates_replaced CHECK ((state = 'replaced') = (replaced_by IS NOT NULL)),
    ADD CONSTRAINT certificates_state_facts CHECK (
        (state = 'valid') = (state_reason IS NULL) AND (state = 'valid') = (state_changed_at IS NULL)),
    DROP CONSTRAINT certificates_pkey,
    ADD PRIMARY KEY (account_id, number);
-- The current certificate of an order: the last of its chain, valid or withdrawn.
CREATE UNIQUE INDEX certificates_current ON certificates (account_id, order_id) WHERE state <> 'replaced';
CREATE INDEX certificates_of_order ON certificates (account_id, order_id, issued_at);
CREATE INDEX certificates_to_mail ON certificates (next_mail_at) WHERE next_mail_at IS NOT NULL;

-- checkout -----------------------------------------------------------------------------------------------------

-- Whether the certificate is in the account's name, or in that of the customer, who may enter it.
ALTER TABLE offset_links
    ADD COLUMN beneficiary text NOT NULL DEFAULT 'account' CHECK (beneficiary IN ('account', 'customer'));
-- The name that the customer entered or the API client sent. Null: the account's. Erased with the address.
ALTER TABLE checkouts
    ADD COLUMN beneficiary_name text CHECK (length(beneficiary_name) BETWEEN 1 AND 200),
    ADD COLUMN beneficiary_kind text CHECK (beneficiary_kind IN ('organisation', 'person')),
    ADD COLUMN beneficiary_is_public boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT checkouts_beneficiary CHECK (
        (beneficiary_name IS NULL) = (beneficiary_kind IS NULL)
        AND (beneficiary_kind = 'person' OR NOT beneficiary_is_public));
