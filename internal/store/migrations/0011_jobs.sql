-- Work that nodes do in the background, at most one job for each subject of a kind. A
-- claim raises the token, which every effect of the job names. A node that runs a job
-- raises renewals: others take it over when the number stands still. Times are shown
-- and decide only when a queued job is due.
CREATE TABLE jobs (
	id TEXT PRIMARY KEY,
	kind TEXT NOT NULL,
	subject_id TEXT NOT NULL,
	organisation_id TEXT NOT NULL,
	workspace_id TEXT NOT NULL,
	state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed', 'dead', 'cancelled')),
	node TEXT NOT NULL,
	token BIGINT NOT NULL,
	renewals BIGINT NOT NULL,
	tries BIGINT NOT NULL,
	failure TEXT NOT NULL,
	progress BIGINT NOT NULL,
	total BIGINT,
	next_at BIGINT,
	created_at BIGINT NOT NULL,
	started_at BIGINT,
	renewed_at BIGINT,
	ended_at BIGINT
);

CREATE UNIQUE INDEX jobs_subject ON jobs (kind, subject_id);

CREATE INDEX jobs_due ON jobs (state, kind, next_at);

CREATE INDEX jobs_organisation ON jobs (organisation_id, workspace_id);
