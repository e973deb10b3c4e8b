-- compatible_from: 34
-- transaction: none

-- retirements --------------------------------------------------------------------------------------------------

-- The place of a certificate in the status lists, set when it is no longer valid: the id of the statement that it was
-- issued. Lists are read from the index, so their cost does not grow with the number of valid certificates.
ALTER TABLE certificates ADD COLUMN IF NOT EXISTS status_index bigint;
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS certificates_changed ON certificates (mode, status_index)
    WHERE status_index IS NOT NULL;

-- A trigger, because servers of the previous release also replace certificates while the release changes.
CREATE OR REPLACE FUNCTION set_status_index() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.status_index := (SELECT id FROM log_statements
                         WHERE mode = NEW.mode AND kind = 'certificate.issued' AND subject = NEW.number);
    RETURN NEW;
END
$$;
CREATE OR REPLACE TRIGGER changed_certificates_are_listed BEFORE UPDATE ON certificates FOR EACH ROW
    WHEN (OLD.state = 'valid' AND NEW.state <> 'valid') EXECUTE FUNCTION set_status_index();

-- Certificates that were replaced or withdrawn before.
-- repeat until it changes no row
UPDATE certificates SET status_index = statement.id
FROM (SELECT certificate.number, statement.id
      FROM certificates certificate
      JOIN log_statements statement ON statement.mode = certificate.mode AND statement.kind = 'certificate.issued'
                                   AND statement.subject = certificate.number
      WHERE certificate.state <> 'valid' AND certificate.status_index IS NULL
      LIMIT 1000) AS statement
WHERE certificates.number = statement.number;
