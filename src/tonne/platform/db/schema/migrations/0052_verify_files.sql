-- compatible_from: 34
-- transaction: none
-- Finding a certificate by its file, and the logos that certificates show.

-- retirements --------------------------------------------------------------------------------------------------

CREATE INDEX CONCURRENTLY IF NOT EXISTS certificate_documents_by_hash ON certificate_documents (sha256);

-- The logos of beneficiaries, as they were when their certificates were issued: a certificate does not change with the
-- account's logo. `sha256` is in the record of the certificate.
CREATE TABLE IF NOT EXISTS certificate_logos (
    sha256      bytea PRIMARY KEY CHECK (length(sha256) = 32),
    media_type  text NOT NULL,
    content     bytea NOT NULL
);
