-- Tenants' plans.

CREATE TABLE tidegate_tenants (
    tenant text PRIMARY KEY CHECK (tenant <> ''),
    plan text NOT NULL
);

-- Tells whose plan has changed, as users' tiers are told: '' stands for everybody's.
CREATE FUNCTION tidegate_tenants_changed() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    payloads text[];
BEGIN
    IF TG_OP <> 'TRUNCATE' THEN
        SELECT array_agg(json_build_object('tenant', tenant)::text)
        INTO payloads
        FROM (SELECT DISTINCT tenant FROM changed LIMIT 101) AS tenants;
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

CREATE TRIGGER tidegate_tenants_inserted AFTER INSERT ON tidegate_tenants
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION tidegate_tenants_changed();
-- Two, as a row may become another tenant's.
CREATE TRIGGER tidegate_tenants_updated_from AFTER UPDATE ON tidegate_tenants
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION tidegate_tenants_changed();
CREATE TRIGGER tidegate_tenants_updated_to AFTER UPDATE ON tidegate_tenants
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION tidegate_tenants_changed();
CREATE TRIGGER tidegate_tenants_deleted AFTER DELETE ON tidegate_tenants
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION tidegate_tenants_changed();
CREATE TRIGGER tidegate_tenants_truncated AFTER TRUNCATE ON tidegate_tenants
    FOR EACH STATEMENT EXECUTE FUNCTION tidegate_tenants_changed();
