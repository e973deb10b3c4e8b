-- compatible_from: 1
-- An older release still runs, but cannot import a lot whose serial block is stored in another spelling: it reports a
-- violated constraint.

-- retirements --------------------------------------------------------------------------------------------------

-- Upper case, without spaces and punctuation: the ASCII letters only, so that the result does not depend on the locale.
CREATE FUNCTION plain_spelling(label text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN
    upper(regexp_replace(
        normalize(label, NFKC) COLLATE "C",
        '[\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00bf\u00d7\u00f7\u2000-\u206f\u2212\u3000-\u303f]', '', 'g'));

-- One id for all names of a registry. A new alias needs a migration that computes the serial blocks again.
CREATE FUNCTION registry_id(registry text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN (
    SELECT CASE
        WHEN name IN ('VCS', 'VERRAVCS', 'VERRAREGISTRY', 'VERIFIEDCARBONSTANDARD') THEN 'VERRA'
        WHEN name IN ('GS', 'GSF', 'GOLDSTANDARDREGISTRY', 'GOLDSTANDARDIMPACTREGISTRY', 'GOLDSTANDARDFORTHEGLOBALGOALS')
            THEN 'GOLDSTANDARD'
        WHEN name IN ('AMERICANCARBONREGISTRY', 'ACRATWINROCKINTERNATIONAL') THEN 'ACR'
        WHEN name IN ('CLIMATEACTIONRESERVE', 'THERESERVE') THEN 'CAR'
        WHEN name IN ('PUROEARTH', 'PUROREGISTRY', 'PUROSTANDARD') THEN 'PURO'
        WHEN name IN ('ISOMETRICREGISTRY') THEN 'ISOMETRIC'
        ELSE name END
    FROM plain_spelling(registry) AS name);

-- Two blocks are the same if these are equal: `Verra` and `9731-VCS-VCU`, `verra` and `9731 vcs vcu`.
CREATE FUNCTION canonical_serial_block(registry text, block text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN registry_id(registry) || ' ' || plain_spelling(block);

ALTER TABLE serial_blocks
    ADD COLUMN canonical text NOT NULL GENERATED ALWAYS AS (canonical_serial_block(registry, block)) STORED;
-- The block as it is spelt in the file of the lot, for certificates and work lists. Null: as in serial_blocks.
ALTER TABLE lots ADD COLUMN block_spelling text CHECK (length(block_spelling) BETWEEN 1 AND 200);

DO $$
DECLARE
    pairs text;
BEGIN
    WITH spelt AS (
        SELECT lot.id, lot.mode, lot.first_number, lot.last_number, lot.allocated_grams, block.registry, block.block,
               block.canonical
        FROM lots lot JOIN serial_blocks block ON block.number = lot.serial_block
    )
    SELECT string_agg(format('%s (%s, %s %s %s–%s, %s g allocated) and %s (%s, %s %s %s–%s, %s g allocated)',
                             one.id, one.mode, one.registry, one.block, one.first_number, one.last_number,
                             one.allocated_grams, other.id, other.mode, other.registry, other.block,
                             other.first_number, other.last_number, other.allocated_grams), '; ')
    INTO pairs
    FROM spelt one JOIN spelt other
      ON one.canonical = other.canonical AND one.id < other.id
     AND one.first_number <= other.last_number AND one.last_number >= other.first_number;
    IF pairs IS NOT NULL THEN
        RAISE EXCEPTION 'These lots hold the same serial numbers in different spellings: %. Delete the duplicates of '
                        'which 0 g are allocated from the table lots, then migrate again.', pairs;
    END IF;
END $$;

-- One row per block. Lots keep their spelling, because certificates state it.
WITH kept AS (SELECT canonical, min(number) AS number FROM serial_blocks GROUP BY canonical HAVING count(*) > 1)
UPDATE lots SET serial_block = kept.number, block_spelling = block.block
FROM serial_blocks block JOIN kept USING (canonical)
WHERE lots.serial_block = block.number;
DELETE FROM serial_blocks block USING serial_blocks kept
WHERE kept.canonical = block.canonical AND kept.number < block.number;
ALTER TABLE serial_blocks ADD CONSTRAINT serial_blocks_canonical_key UNIQUE (canonical);

-- Checked at the end of a statement: one import may move the border between two lots.
ALTER TABLE lots DROP CONSTRAINT lots_never_overlap;
ALTER TABLE lots ADD CONSTRAINT lots_never_overlap EXCLUDE USING gist (
    numrange(serial_block * 1000000000000000::numeric + first_number,
             serial_block * 1000000000000000::numeric + last_number, '[]') WITH &&) DEFERRABLE INITIALLY IMMEDIATE;

-- Lots that an operator withdrew before anything was allocated from them. Their serial numbers may be imported again.
CREATE TABLE withdrawn_lots (
    mode            mode NOT NULL,
    id              text NOT NULL,
    project_id      text NOT NULL,
    vintage         smallint NOT NULL,
    serial_block    text NOT NULL,
    first_number    bigint NOT NULL,
    last_number     bigint NOT NULL,
    country         text NOT NULL,
    methodology     text,
    status          text NOT NULL,
    retirement_url  text,
    retired_on      date,
    created_at      timestamptz NOT NULL,
    withdrawn_at    timestamptz NOT NULL,
    withdrawn_by    text NOT NULL,
    reason          text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    PRIMARY KEY (mode, id),
    FOREIGN KEY (mode, project_id) REFERENCES projects
);

-- The parcel from which it was split off, because the registry retired only a part of that one, or other serials.
ALTER TABLE parcels ADD COLUMN split_from text;
CREATE INDEX parcels_split_from ON parcels (mode, split_from) WHERE split_from IS NOT NULL;
