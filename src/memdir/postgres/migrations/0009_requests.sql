-- What processes share about requests: sessions of the members' page, rates, and idempotency keys; how long history is kept; groups of the OIDC
-- provider and the roles that they give. `logins` is about browsers that belong to nobody yet, so it has no tenant.

CREATE TABLE memdir.sessions (
    tenant uuid NOT NULL REFERENCES memdir.tenants ON DELETE CASCADE,
    session bytea NOT NULL,
    who text NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (tenant, session)
);

CREATE TABLE memdir.rates (
    tenant uuid NOT NULL REFERENCES memdir.tenants ON DELETE CASCADE,
    credential text NOT NULL,
    minute bigint NOT NULL,
    requests bigint NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (tenant, credential, minute)
);

CREATE TABLE memdir.idempotency (
    tenant uuid NOT NULL REFERENCES memdir.tenants ON DELETE CASCADE,
    key text NOT NULL,
    digest text NOT NULL,
    status integer NOT NULL,
    answer text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, key)
);

CREATE TABLE memdir.logins (
    login bytea PRIMARY KEY,
    state text NOT NULL,
    nonce text NOT NULL,
    verifier text NOT NULL,
    organisation text NOT NULL,
    back text NOT NULL,
    until timestamptz NOT NULL
);

ALTER TABLE memdir.tenants ADD COLUMN keep_days integer NOT NULL DEFAULT 0, ADD COLUMN groups jsonb NOT NULL DEFAULT '{}';

ALTER TABLE memdir.sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.sessions USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.sessions AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.rates ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.rates FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.rates USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.rates AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.idempotency ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.idempotency FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.idempotency USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.idempotency AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

GRANT SELECT, INSERT, UPDATE, DELETE ON memdir.sessions, memdir.rates, memdir.idempotency, memdir.logins TO memdir_app;
