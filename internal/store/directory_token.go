package store

import (
	"context"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// DirectoryToken is a token with which the directory of an organisation calls SCIM.
type DirectoryToken struct {
	ID           string
	Organisation string
	Name         string
	Hash         string // of the token
	Hint         string // end of the token
	CreatedBy    string
	CreatedAt    time.Time
	LastUsedAt   time.Time // at most a minute before the last use; zero for never
}

var directoryTokenTable = table[DirectoryToken]{
	name: "directory_tokens", row: "token", order: "id DESC", fixed: "id organisation_id name hash hint created_by created_at",
	columns: func(t *DirectoryToken) []column {
		return []column{
			{"id", &t.ID}, {"organisation_id", &t.Organisation}, {"name", &t.Name}, {"hash", &t.Hash}, {"hint", &t.Hint},
			{"created_by", &t.CreatedBy}, {"created_at", &t.CreatedAt}, {"last_used_at", &t.LastUsedAt},
		}
	},
}

// DirectoryTokens returns the tokens of an organisation, newest first.
func (q Queries) DirectoryTokens(ctx context.Context, organisation string) ([]DirectoryToken, error) {
	return directoryTokenTable.list(ctx, q.Reader, `
		WHERE organisation_id = $1
		ORDER BY id DESC`, organisation)
}

// DirectoryToken returns a token of an organisation by its id.
func (q Queries) DirectoryToken(ctx context.Context, organisation, id string) (DirectoryToken, error) {
	return directoryTokenTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND id = $2`, organisation, id)
}

// DirectoryTokenByHash returns the token with this hash.
func (q Queries) DirectoryTokenByHash(ctx context.Context, hash string) (DirectoryToken, error) {
	return directoryTokenTable.one(ctx, q.Reader, `
		WHERE hash = $1`, hash)
}

// CreateDirectoryToken stores a token.
func (tx *Tx) CreateDirectoryToken(ctx context.Context, t DirectoryToken) error {
	return directoryTokenTable.insert(ctx, tx, t)
}

// DeleteDirectoryToken deletes a token.
func (tx *Tx) DeleteDirectoryToken(ctx context.Context, organisation, id string) error {
	const text = `
		DELETE FROM directory_tokens
		WHERE organisation_id = $1 AND id = $2`
	return tx.write(ctx, journal.Unpublished, "token", text, organisation, id)
}

// TouchDirectoryToken records that a token was used at now. It makes no revision.
func (db *DB) TouchDirectoryToken(ctx context.Context, id string, now time.Time) error {
	const text = `
		UPDATE directory_tokens
		SET last_used_at = $2
		WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)`
	return db.exec(ctx, "token", text, id, now.UnixMilli())
}

// strings reads a query of one column of text.
func (q Queries) strings(ctx context.Context, what, text string, args ...any) ([]string, error) {
	return sqlrow.List(ctx, q.Reader, what, text, scanID, args...)
}
