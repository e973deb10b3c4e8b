-- compatible_from: 34

-- signing ------------------------------------------------------------------------------------------------------

-- The keys of the operator. Rows are never deleted: signatures of retired keys stay valid, and their public keys must be found.
CREATE TABLE signing_keys (
    id            text PRIMARY KEY,
    purpose       text NOT NULL CHECK (purpose IN ('document', 'credential', 'log')),
    created_at    timestamptz NOT NULL,
    -- From then on the key signs nothing. It may be a minute ahead: other processes notice a rotation a little later.
    retired_at    timestamptz,
    -- The key leaked: signatures with this date or a later one are refused.
    revoked_from  timestamptz,
    -- In PEM: the certificate of a key for documents, else the public key.
    public        text NOT NULL UNIQUE,
    -- The private key in PEM, encrypted. Null if it is in a file of the operator or in a hardware module.
    private_box   bytea,
    CHECK (revoked_from IS NULL OR retired_at IS NOT NULL)
);
-- Two processes that create the first key at the same time: the second one uses the key of the first.
CREATE UNIQUE INDEX signing_keys_current ON signing_keys (purpose) WHERE retired_at IS NULL;
