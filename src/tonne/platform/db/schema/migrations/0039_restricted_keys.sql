-- compatible_from: 34

-- accounts -----------------------------------------------------------------------------------------------------

-- Restrictions of API keys. The stored hash of a restricted key is the hash of a hash, which earlier releases do not
-- look for: they refuse such a key instead of ignoring its restrictions.
ALTER TABLE api_keys
    -- Such as orders:write. Null: everything, except what needs a right.
    ADD COLUMN permissions text[],
    -- Null: all accounts of the organisation and mode.
    ADD COLUMN account_ids text[],
    -- Empty: from everywhere.
    ADD COLUMN networks cidr[] NOT NULL DEFAULT '{}',
    ADD COLUMN expires_at timestamptz,
    -- The actor. Null: the key is older than this column.
    ADD COLUMN created_by text,
    -- The key that a rotation has created. This one then works until expires_at.
    ADD COLUMN replaced_by text,
    -- The first key of a chain of rotations: what its keys order counts as one sum. Null: the key itself.
    ADD COLUMN limit_key_id text;
