-- Exports that the gateway starts by itself. The next one is of the time from period_from, and
-- is started at next_at. workspaces is a list of ids, or null for all of the organisation.
CREATE TABLE export_schedules (
	id TEXT PRIMARY KEY,
	organisation_id TEXT NOT NULL REFERENCES organisations (id),
	name TEXT NOT NULL,
	workspaces TEXT NOT NULL,
	every TEXT NOT NULL,
	zone TEXT NOT NULL,
	format TEXT NOT NULL,
	filters TEXT NOT NULL,
	requested TEXT NOT NULL,
	status TEXT NOT NULL,
	reason TEXT NOT NULL,
	key_id TEXT NOT NULL,
	user_id TEXT NOT NULL,
	period_from BIGINT NOT NULL,
	next_at BIGINT NOT NULL,
	last_run_at BIGINT,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL
);

CREATE INDEX export_schedules_organisation ON export_schedules (organisation_id);

CREATE INDEX export_schedules_due ON export_schedules (status, next_at);

ALTER TABLE exports ADD COLUMN schedule_id TEXT NOT NULL DEFAULT '';
