-- Row-level security: whatever a statement forgets, it reaches the rows of one tenant. It is forced, so that it holds for the owner of the tables too,
-- and the policy is restrictive, so that a second policy can narrow it and never widen it. Without `app.tenant` every statement fails.

ALTER TABLE memdir.tenants ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.tenants FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.tenants USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.tenants AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.stores ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.stores FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.stores USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.stores AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.contents ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.contents FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.contents USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.contents AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.files ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.files FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.files USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.files AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.changes ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.changes FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.changes USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.changes AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.changed_files ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.changed_files FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.changed_files USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.changed_files AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.inbox ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.inbox FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.inbox USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.inbox AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.recalls ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.recalls FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.recalls USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.recalls AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.search ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.search FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.search USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.search AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.searched ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.searched FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.searched USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.searched AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.members ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.members FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.members USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.members AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.teams ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.teams FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.teams USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.teams AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.team_members ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.team_members FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.team_members USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.team_members AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.tokens ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.tokens FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.tokens USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.tokens AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

ALTER TABLE memdir.audit ENABLE ROW LEVEL SECURITY;
ALTER TABLE memdir.audit FORCE ROW LEVEL SECURITY;
CREATE POLICY anybody ON memdir.audit USING (true) WITH CHECK (true);
CREATE POLICY own_tenant ON memdir.audit AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid)) WITH CHECK (tenant = (SELECT current_setting('app.tenant')::uuid));

-- The application role owns nothing and changes no table. The log of what was done can be added to and read.
GRANT USAGE ON SCHEMA memdir TO memdir_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON memdir.stores, memdir.contents, memdir.files, memdir.changes, memdir.changed_files, memdir.inbox, memdir.recalls, memdir.search, memdir.searched, memdir.members, memdir.teams, memdir.team_members, memdir.tokens TO memdir_app;
GRANT SELECT ON memdir.tenants, memdir.migrations TO memdir_app;
GRANT SELECT, INSERT ON memdir.audit TO memdir_app;
