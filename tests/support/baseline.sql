-- What `kept_database.py` adds to a database that is restored before each test.
-- `baseline` has a copy of every table that is not empty, and what is needed to find out which tables have changed:
-- rows that were inserted or updated since have another `xmin`, and deleted ones are missing.
CREATE SCHEMA baseline;
CREATE TABLE baseline.tables (name regclass PRIMARY KEY, row_count bigint NOT NULL, restored_by xid, copy text);
CREATE TABLE baseline.sequences (name regclass PRIMARY KEY, last_value bigint);
CREATE TABLE baseline.schema_changes (command text);

DO $$
DECLARE leaf regclass; found bigint; columns text; copy text;
BEGIN
    FOR leaf IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('SELECT count(*) FROM ONLY %s', leaf) INTO found;
        IF found > 0 THEN
            EXECUTE format('CREATE TABLE baseline.%I AS TABLE %s', 'of_' || leaf::oid, leaf);
            SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) INTO columns
            FROM pg_attribute WHERE attrelid = leaf AND attnum > 0 AND NOT attisdropped AND attgenerated = '';
            copy := format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %2$s FROM baseline.%I',
                           leaf, columns, 'of_' || leaf::oid);
        ELSE
            copy := NULL;
        END IF;
        INSERT INTO baseline.tables VALUES (leaf, found, NULL, copy);
    END LOOP;
    INSERT INTO baseline.sequences SELECT oid, pg_sequence_last_value(oid) FROM pg_class WHERE relkind = 'S';
END $$;

CREATE FUNCTION baseline.restore() RETURNS void LANGUAGE plpgsql SET session_replication_role = replica AS $$
DECLARE place record; is_same boolean;
BEGIN
    IF EXISTS (SELECT FROM baseline.schema_changes) OR EXISTS (
        SELECT FROM pg_db_role_setting JOIN pg_database ON oid = setdatabase WHERE datname = current_database()
    ) THEN
        RAISE EXCEPTION 'the schema was changed' USING ERRCODE = 'TS001';
    END IF;
    FOR place IN
        SELECT name, row_count, restored_by, copy FROM baseline.tables WHERE row_count > 0 OR pg_relation_size(name) > 0
    LOOP
        is_same := false;
        IF place.row_count > 0 THEN
            EXECUTE format('SELECT count(*) = $1 AND bool_and(xmin = $2) FROM ONLY %s', place.name)
            INTO is_same USING place.row_count, place.restored_by;
        END IF;
        IF is_same IS NOT TRUE THEN
            EXECUTE format('DELETE FROM ONLY %s', place.name);
            IF place.row_count > 0 THEN
                EXECUTE place.copy;
                UPDATE baseline.tables SET restored_by = pg_current_xact_id()::xid WHERE name = place.name;
            END IF;
        END IF;
    END LOOP;
    PERFORM setval(name, coalesce(last_value, 1), last_value IS NOT NULL)
    FROM baseline.sequences WHERE pg_sequence_last_value(name) IS DISTINCT FROM last_value;
END $$;

CREATE FUNCTION baseline.note_schema_change() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO baseline.schema_changes VALUES (tg_tag);
END $$;
CREATE EVENT TRIGGER schema_changes ON ddl_command_end EXECUTE FUNCTION baseline.note_schema_change();
CREATE EVENT TRIGGER schema_drops ON sql_drop EXECUTE FUNCTION baseline.note_schema_change();
