-- compatible_from: 21
-- Releases before this one ignore a hold: do not run them on a database that is held.

-- db -----------------------------------------------------------------------------------------------------------

-- One row while the service is held, for example after a restore: nothing leaves it and no number is taken.
CREATE TABLE service_holds (
    id       boolean PRIMARY KEY DEFAULT true CHECK (id),
    held_at  timestamptz NOT NULL,
    held_by  text NOT NULL,
    reason   text NOT NULL CHECK (reason <> '')
);

CREATE FUNCTION refuse_while_held() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM service_holds) THEN
        RAISE EXCEPTION 'the service is held: % is not written', TG_TABLE_NAME USING ERRCODE = 'TH001';
    END IF;
    RETURN NULL;
END
$$;

-- cards --------------------------------------------------------------------------------------------------------

CREATE TRIGGER charges_not_while_held BEFORE INSERT ON charges
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_while_held();

-- invoices -----------------------------------------------------------------------------------------------------

CREATE TRIGGER invoice_numbers_not_while_held BEFORE UPDATE ON invoice_series
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_while_held();

CREATE TRIGGER credit_note_numbers_not_while_held BEFORE UPDATE ON credit_note_series
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_while_held();

-- retirements --------------------------------------------------------------------------------------------------

CREATE TRIGGER certificate_numbers_not_while_held BEFORE INSERT ON certificates
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_while_held();

-- refunds ------------------------------------------------------------------------------------------------------

CREATE TRIGGER refunds_not_while_held BEFORE INSERT ON refunds
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_while_held();
