-- Rule documents, their versions, and what is remembered of their changes.
--
-- Run with a search path of one schema, which the functions keep: they mean these tables, whatever path whoever
-- changes a rule has. They run as their owner, so that whoever may change rules needs no rights on the counter.

-- The version that the rules have by now: one row. Whoever changes a rule locks it until the transaction ends, so that
-- versions become visible in the order in which they are given.
CREATE TABLE tidegate_state (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    -- The integers that a double tells apart.
    version bigint NOT NULL DEFAULT 0 CHECK (version BETWEEN 0 AND 9007199254740991)
);
INSERT INTO tidegate_state DEFAULT VALUES;

CREATE TABLE tidegate_rules (
    name text PRIMARY KEY CHECK (name <> ''),
    text text NOT NULL,
    -- All below are filled in by triggers and by Tidegate.
    version bigint NOT NULL,
    good_version bigint,
    good_text text,
    updated_at timestamptz NOT NULL,
    updated_by text NOT NULL
);

CREATE TABLE tidegate_rule_history (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('rule', 'document')),
    subject text NOT NULL,
    version bigint NOT NULL,
    previous bigint,
    at timestamptz NOT NULL,
    author text NOT NULL,
    action text NOT NULL CHECK (action IN ('created', 'changed', 'deleted', 'rolled_back')),
    rolled_back_to bigint CHECK ((rolled_back_to IS NOT NULL) = (action = 'rolled_back')),
    before text,
    after text
);
CREATE INDEX tidegate_rule_history_by_subject ON tidegate_rule_history (kind, subject, id);

-- The version of all that this transaction changes.
CREATE FUNCTION tidegate_next_version() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    -- Each schema counts by itself.
    place text := 'tidegate_state'::regclass::oid || ':';
    given text := current_setting('tidegate.version', true);
    new bigint;
BEGIN
    IF starts_with(given, place) THEN
        RETURN substr(given, length(place) + 1)::bigint;
    END IF;
    UPDATE tidegate_state SET version = version + 1 RETURNING version INTO new;
    IF new IS NULL THEN
        RAISE EXCEPTION 'tidegate_state is empty' USING HINT = 'INSERT INTO tidegate_state DEFAULT VALUES';
    END IF;
    -- Until the transaction ends.
    PERFORM set_config('tidegate.version', place || new, true);
    RETURN new;
END $$;
REVOKE EXECUTE ON FUNCTION tidegate_next_version() FROM PUBLIC;

-- Before any row is locked: two that change the same rules in another order wait for each other in turn, not for ever.
CREATE FUNCTION tidegate_lock() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM tidegate_state FOR UPDATE;
    RETURN NULL;
END $$;

CREATE FUNCTION tidegate_rule_changes() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    -- That a text is known to be good does not change it.
    IF TG_OP = 'UPDATE' AND (NEW.name, NEW.text, NEW.version) = (OLD.name, OLD.text, OLD.version) THEN
        RETURN NEW;
    END IF;
    NEW.version := tidegate_next_version();
    IF NEW.good_text = NEW.text THEN
        NEW.good_version := NEW.version;
    END IF;
    NEW.updated_at := now();
    NEW.updated_by := coalesce(nullif(current_setting('tidegate.author', true), ''), session_user);
    PERFORM pg_notify('tidegate_rules', '');
    RETURN NEW;
END $$;

CREATE FUNCTION tidegate_rules_vanish() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM tidegate_next_version();
    PERFORM pg_notify('tidegate_rules', '');
    RETURN OLD;
END $$;

CREATE TRIGGER tidegate_lock BEFORE INSERT OR UPDATE OR DELETE ON tidegate_rules
    FOR EACH STATEMENT EXECUTE FUNCTION tidegate_lock();
CREATE TRIGGER tidegate_rule_changes BEFORE INSERT OR UPDATE ON tidegate_rules
    FOR EACH ROW EXECUTE FUNCTION tidegate_rule_changes();
CREATE TRIGGER tidegate_rule_vanishes BEFORE DELETE ON tidegate_rules
    FOR EACH ROW EXECUTE FUNCTION tidegate_rules_vanish();
CREATE TRIGGER tidegate_rules_vanish BEFORE TRUNCATE ON tidegate_rules
    FOR EACH STATEMENT EXECUTE FUNCTION tidegate_rules_vanish();
