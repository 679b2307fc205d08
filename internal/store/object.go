package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// Kinds of an [Object].
const (
	ObjectFile         = "file"
	ObjectUpload       = "upload"
	ObjectPart         = "part" // of an upload
	ObjectBatch        = "batch"
	ObjectChunk        = "chunk" // of the results of a batch
	ObjectTuningJob    = "fine-tuning job"
	ObjectResponse     = "response"
	ObjectConversation = "conversation"

	// What clients of other protocols than that of OpenAI create.
	ObjectAnthropicFile  = "Anthropic file"
	ObjectAnthropicBatch = "message batch"
	ObjectGeminiFile     = "Gemini file"
	ObjectGeminiUpload   = "Gemini upload"
	ObjectGeminiBatch    = "Gemini batch"

	// ObjectCopy is a copy of a file, its parent, at another provider or in the gateway.
	ObjectCopy      = "copy"
	ObjectCall      = "call"          // a realtime call
	ObjectSecretUse = "client secret" // that has begun a session
)

// Object is a record of what outlives a request, at a provider or in the gateway. Its
// workspace owns it: every key of the workspace may use it.
type Object struct {
	ID           string // begins with the prefix of its kind; later objects have larger ids
	Kind         string
	Organisation string
	Workspace    string // id
	KeyID        string // of the key that created it
	Provider     string // "@" with the slug of its managed provider; empty for what the gateway keeps
	Integration  string // id, of the provider at the time
	ProviderID   string // the provider's own id; empty if there is none, or not yet
	Parent       string // id of the object that it belongs to; empty for none
	State        string
	Label        string // what lists filter by: the purpose of a file, the endpoint of a batch
	Size         int64  // bytes that count against the quota of the workspace
	Data         json.RawMessage
	Version      int64 // raised by every change

	CreatedAt time.Time
	UpdatedAt time.Time
	ExpiresAt time.Time // when it is deleted; zero is never
	EndedAt   time.Time // zero until it has ended
}

// ShownID returns the id that clients see: the provider's own, if there is one that fits
// into a path.
func (o *Object) ShownID() string {
	if o.ProviderID != "" && !strings.Contains(o.ProviderID, "/") {
		return o.ProviderID
	}
	return o.ID
}

var objectTable = table[Object]{
	name: "objects", row: "object", order: "id DESC", fixed: "id kind organisation_id workspace_id key_id parent_id created_at",
	columns: func(o *Object) []column {
		return []column{
			{"id", &o.ID}, {"kind", &o.Kind}, {"organisation_id", &o.Organisation}, {"workspace_id", &o.Workspace}, {"key_id", &o.KeyID},
			{"provider", &o.Provider}, {"integration_id", &o.Integration}, {"provider_object_id", &o.ProviderID}, {"parent_id", &o.Parent},
			{"state", &o.State}, {"label", &o.Label}, {"size", &o.Size}, {"data", object(&o.Data)}, {"version", &o.Version},
			{"created_at", &o.CreatedAt}, {"updated_at", &o.UpdatedAt}, {"expires_at", &o.ExpiresAt}, {"ended_at", &o.EndedAt},
		}
	},
}

// Transact runs f in a transaction without a revision, for rows that gateways do not
// publish: objects and jobs. Errors are those of [DB.Update].
func (db *DB) Transact(ctx context.Context, f func(*Tx) error) error {
	if !db.ready.Load() {
		return unavailableError(nil)
	}
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	return db.ClientError(db.transact(ctx, f))
}

// Object returns the object of a kind with this id, its own or its provider's, in a
// workspace. One of another workspace is not found, like one that does not exist.
func (q Queries) Object(ctx context.Context, workspace, kind, id string) (Object, error) {
	return objectTable.of(kind).one(ctx, q.Reader, `
		WHERE workspace_id = $1 AND kind = $2 AND (id = $3 OR provider_object_id = $3)
		ORDER BY id DESC
		LIMIT 1`, workspace, kind, id)
}

// ObjectByID returns the object with its own id, of any workspace. It is for jobs.
func (q Queries) ObjectByID(ctx context.Context, id string) (Object, error) {
	return objectTable.one(ctx, q.Reader, `
		WHERE id = $1`, id)
}

// ObjectQuery selects objects of a workspace. Empty fields select all.
type ObjectQuery struct {
	Workspace, Kind string // required
	Provider        string
	Label, Parent   string
	After           string // own id of the last object of the page before
	Ascending       bool   // oldest first
	AtProvider      bool   // only those that a provider has described
	Limit           int
}

// Objects returns a page of objects, the latest first unless x says otherwise, and whether
// there are more. Objects that are added or deleted while a client pages make it neither
// skip nor repeat others.
func (q Queries) Objects(ctx context.Context, x ObjectQuery) (list []Object, more bool, err error) {
	compare, order := "<", "DESC"
	if x.Ascending {
		compare, order = ">", "ASC"
	}
	list, err = objectTable.list(ctx, q.Reader, fmt.Sprintf(`
		WHERE workspace_id = $1 AND kind = $2 AND ($3 = '' OR provider = $3) AND ($4 = '' OR label = $4) AND ($5 = '' OR parent_id = $5)
			AND ($6 = '' OR id %s $6) AND ($7 = '' OR provider_object_id <> '')
		ORDER BY id %s
		LIMIT $8`, compare, order), x.Workspace, x.Kind, x.Provider, x.Label, x.Parent, x.After, isSet(x.AtProvider), x.Limit+1)
	if len(list) > x.Limit {
		return list[:x.Limit], true, err
	}
	return list, false, err
}

// isSet returns a text that is empty for false: both databases compare it in the same way.
func isSet(b bool) string {
	if b {
		return "true"
	}
	return ""
}

// ObjectBytes returns the sum of the sizes of the objects of a workspace.
func (q Queries) ObjectBytes(ctx context.Context, workspace string) (bytes int64, err error) {
	const text = `
		SELECT COALESCE(SUM(size), 0)
		FROM objects
		WHERE workspace_id = $1`
	return sqlrow.One(ctx, q.Reader, "size of objects", text, func(r sqlrow.Scanner) (n int64, err error) {
		var sum sql.NullInt64
		err = r.Scan(&sum)
		return sum.Int64, err
	}, workspace)
}

// HasObjects reports whether a workspace has at least n objects of a kind.
func (q Queries) HasObjects(ctx context.Context, workspace, kind string, n int) (bool, error) {
	const text = `
		SELECT COUNT(*)
		FROM (SELECT 1 FROM objects WHERE workspace_id = $1 AND kind = $2 LIMIT $3) AS found`
	found, err := sqlrow.Count(ctx, q.Reader, text, workspace, kind, n)
	return found >= n, err
}

// ExpiredObjects returns some objects whose time is over.
func (db *DB) ExpiredObjects(ctx context.Context, now time.Time, limit int) ([]Object, error) {
	if !db.ready.Load() {
		return nil, unavailableError(nil)
	}
	list, err := objectTable.list(ctx, db.read, `
		WHERE expires_at <= $1
		ORDER BY expires_at, id
		LIMIT $2`, millis(now), limit)
	return list, db.ClientError(err)
}

// AddObject stores an object.
func (tx *Tx) AddObject(ctx context.Context, o Object) error {
	return objectTable.of(o.Kind).insert(ctx, tx, o)
}

// UpdateObject stores an object that was read before, and raises its version. If it has
// changed since, it returns an *apierr.Error of kind Conflict, and one of kind NotFound if
// it was deleted.
func (tx *Tx) UpdateObject(ctx context.Context, o *Object) error {
	was := o.Version
	o.Version++
	updated, err := objectTable.updateIf(ctx, tx, *o, `version = $2`, was)
	if err != nil || updated {
		return err
	}
	o.Version = was
	if _, err := tx.ObjectByID(ctx, o.ID); err != nil {
		return err
	}
	return apierr.New(apierr.Conflict, "the %s has just changed; read it again", o.Kind).WithCode("object_changed")
}

// DeleteChildren deletes the objects of a kind that belong to an object. There may be none.
func (tx *Tx) DeleteChildren(ctx context.Context, o *Object, kind string) error {
	const stmt = `
		DELETE FROM objects
		WHERE workspace_id = $1 AND kind = $2 AND parent_id = $3`
	return tx.exec(ctx, journal.Unpublished, "objects", stmt, o.Workspace, kind, o.ID)
}

// DeleteObject deletes an object of a workspace. If there is none, it is not found.
func (tx *Tx) DeleteObject(ctx context.Context, o *Object) error {
	const stmt = `
		DELETE FROM objects
		WHERE id = $1`
	return tx.write(ctx, journal.Unpublished, o.Kind, stmt, o.ID)
}

// OrphanedObjects returns some objects of workspaces that were archived before a time.
func (db *DB) OrphanedObjects(ctx context.Context, before time.Time, limit int) ([]Object, error) {
	if !db.ready.Load() {
		return nil, unavailableError(nil)
	}
	list, err := objectTable.list(ctx, db.read, `
		WHERE workspace_id IN (SELECT id FROM workspaces WHERE status = 'archived' AND updated_at < $1)
		ORDER BY id
		LIMIT $2`, millis(before), limit)
	return list, db.ClientError(err)
}

// DeleteJobsOf deletes the jobs whose subject is an object. A node that runs one loses it.
func (tx *Tx) DeleteJobsOf(ctx context.Context, o *Object) error {
	const stmt = `
		DELETE FROM jobs
		WHERE subject_id = $1 AND workspace_id = $2`
	return tx.exec(ctx, journal.Unpublished, "jobs", stmt, o.ID, o.Workspace)
}
