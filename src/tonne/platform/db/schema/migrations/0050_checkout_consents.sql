-- compatible_from: 34

-- checkout -----------------------------------------------------------------------------------------------------

-- Every text that a customer has agreed to. It never changes: a new wording has a new version.
CREATE TABLE consent_texts (
    -- Derived from language and text.
    version     text PRIMARY KEY,
    language    text NOT NULL,
    text        text NOT NULL,
    created_at  timestamptz NOT NULL
);

-- As whom the customer ordered, and which text they agreed to. Null: ordered with an earlier release, or not asked.
ALTER TABLE checkouts
    ADD COLUMN buyer_kind text,
    ADD COLUMN consent_version text,
    ADD COLUMN consent_language text,
    ADD COLUMN consented_at timestamptz;
