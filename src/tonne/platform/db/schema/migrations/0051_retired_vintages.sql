-- compatible_from: 34
-- transaction: none

-- retirements --------------------------------------------------------------------------------------------------

-- Totals of valid certificates by vintage and the year (UTC) in which the order was completed, for the Sustainability
-- page: its cost does not grow with the number of orders. Only triggers write rows.
CREATE TABLE IF NOT EXISTS retired_vintages (
    account_id           text NOT NULL,
    year                 smallint NOT NULL,
    registry             text NOT NULL,
    registry_project_id  text NOT NULL,
    vintage              smallint NOT NULL,
    grams                bigint NOT NULL CHECK (grams >= 0),
    PRIMARY KEY (account_id, year, registry, registry_project_id, vintage)
);

-- Triggers, because servers of the previous release also issue certificates while the release changes.
-- One statement for all certificates of a batch. Sorted to prevent deadlocks between workers.
CREATE OR REPLACE FUNCTION count_new_vintages() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO retired_vintages AS total (account_id, year, registry, registry_project_id, vintage, grams)
    SELECT added.account_id, extract(year FROM first.completed_at AT TIME ZONE 'UTC')::smallint AS year,
           line ->> 'registry' AS registry, line ->> 'project_id' AS registry_project_id,
           (line ->> 'vintage')::smallint AS vintage, sum((line ->> 'quantity')::numeric * 1000000)::bigint
    FROM added
    CROSS JOIN LATERAL (SELECT min(issued_at) AS completed_at FROM certificates
                        WHERE certificates.account_id = added.account_id AND certificates.order_id = added.order_id) first
    CROSS JOIN LATERAL json_array_elements(convert_from(added.record, 'UTF8')::json -> 'lines') AS line
    WHERE added.state = 'valid'
    GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
    ON CONFLICT (account_id, year, registry, registry_project_id, vintage)
    DO UPDATE SET grams = total.grams + excluded.grams;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER vintages_are_counted AFTER INSERT ON certificates
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_new_vintages();

-- A certificate that is replaced or withdrawn is never valid again.
CREATE OR REPLACE FUNCTION subtract_vintages() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE retired_vintages total SET grams = total.grams - gone.grams
    FROM (SELECT extract(year FROM first.completed_at AT TIME ZONE 'UTC')::smallint AS year,
                 line ->> 'registry' AS registry, line ->> 'project_id' AS registry_project_id,
                 (line ->> 'vintage')::smallint AS vintage, sum((line ->> 'quantity')::numeric * 1000000)::bigint AS grams
          FROM (SELECT min(issued_at) AS completed_at FROM certificates
                WHERE certificates.account_id = NEW.account_id AND certificates.order_id = NEW.order_id) first
          CROSS JOIN LATERAL json_array_elements(convert_from(NEW.record, 'UTF8')::json -> 'lines') AS line
          GROUP BY 1, 2, 3, 4) gone
    WHERE total.account_id = NEW.account_id AND total.year = gone.year AND total.registry = gone.registry
      AND total.registry_project_id = gone.registry_project_id AND total.vintage = gone.vintage;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER vintages_are_subtracted AFTER UPDATE ON certificates FOR EACH ROW
    WHEN (OLD.state = 'valid' AND NEW.state <> 'valid') EXECUTE FUNCTION subtract_vintages();

-- Certificates from before the triggers: the difference between the certificates and what is counted. One statement
-- reads both at the same moment. A second run adds nothing.
-- repeat until it changes no row
INSERT INTO retired_vintages AS total (account_id, year, registry, registry_project_id, vintage, grams)
SELECT account_id, year, registry, registry_project_id, vintage, sum(grams)
FROM (SELECT certificate.account_id, extract(year FROM first.completed_at AT TIME ZONE 'UTC')::smallint AS year,
             line ->> 'registry' AS registry, line ->> 'project_id' AS registry_project_id,
             (line ->> 'vintage')::smallint AS vintage, ((line ->> 'quantity')::numeric * 1000000)::bigint AS grams
      FROM certificates certificate
      CROSS JOIN LATERAL (SELECT min(issued_at) AS completed_at FROM certificates same
                          WHERE same.account_id = certificate.account_id AND same.order_id = certificate.order_id) first
      CROSS JOIN LATERAL json_array_elements(convert_from(certificate.record, 'UTF8')::json -> 'lines') AS line
      WHERE certificate.state = 'valid'
      UNION ALL
      SELECT account_id, year, registry, registry_project_id, vintage, -grams FROM retired_vintages) counted
GROUP BY account_id, year, registry, registry_project_id, vintage
HAVING sum(grams) > 0
ON CONFLICT (account_id, year, registry, registry_project_id, vintage)
DO UPDATE SET grams = total.grams + excluded.grams;

-- The list of a Sustainability page skips certificates in private names, which may be many.
CREATE INDEX CONCURRENTLY IF NOT EXISTS certificates_public ON certificates (account_id, issued_at DESC, number DESC)
    WHERE state = 'valid' AND is_public;
