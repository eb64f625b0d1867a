-- Users' tiers. A tenant of '' stands for all tenants, and for none.

CREATE TABLE tidegate_users (
    tenant text NOT NULL DEFAULT '',
    user_id text NOT NULL,
    tier text NOT NULL,
    PRIMARY KEY (tenant, user_id)
);

-- Tells whose tier has changed; '' stands for everybody's: many at once, or a name that is too long to be told.
CREATE FUNCTION tidegate_users_changed() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    payloads text[];
BEGIN
    IF TG_OP <> 'TRUNCATE' THEN
        SELECT array_agg(json_build_object('tenant', tenant, 'user', user_id)::text)
        INTO payloads
        FROM (SELECT DISTINCT tenant, user_id FROM changed LIMIT 101) AS users;
        -- Nothing was changed.
        IF payloads IS NULL THEN
            RETURN NULL;
        END IF;
    END IF;
    IF TG_OP = 'TRUNCATE' OR cardinality(payloads) > 100 THEN
        PERFORM pg_notify('tidegate_tiers', '');
    ELSE
        -- PostgreSQL takes less than 8000 bytes.
        PERFORM pg_notify('tidegate_tiers', CASE WHEN octet_length(payload) < 7000 THEN payload ELSE '' END)
        FROM unnest(payloads) AS payload;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER tidegate_users_inserted AFTER INSERT ON tidegate_users
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION tidegate_users_changed();
-- Two, as a row may become another user's.
CREATE TRIGGER tidegate_users_updated_from AFTER UPDATE ON tidegate_users
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION tidegate_users_changed();
CREATE TRIGGER tidegate_users_updated_to AFTER UPDATE ON tidegate_users
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION tidegate_users_changed();
CREATE TRIGGER tidegate_users_deleted AFTER DELETE ON tidegate_users
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION tidegate_users_changed();
CREATE TRIGGER tidegate_users_truncated AFTER TRUNCATE ON tidegate_users
    FOR EACH STATEMENT EXECUTE FUNCTION tidegate_users_changed();
