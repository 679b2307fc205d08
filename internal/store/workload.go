package store

import (
	"context"
	"time"

	"modelgate/internal/identity/workload"
	"modelgate/internal/storage/journal"
)

// WorkloadIdentity lets workloads exchange tokens of their issuer for short-lived keys
// that have the rights and the limits of a service key.
type WorkloadIdentity struct {
	ID           string
	Organisation string
	Key          string // id of the service key
	Slug         string // unique in the organisation
	Name         string
	Trust        workload.Trust
	TTL          int64  // of the short-lived keys, in seconds
	Sealed       string // the secret that signs them, sealed for the organisation
	Status       string // active or disabled
	CreatedBy    string
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

var workloadTable = table[WorkloadIdentity]{
	name: "workload_identities", row: "workload identity", order: "id DESC", fixed: "id organisation_id created_by created_at",
	columns: func(w *WorkloadIdentity) []column {
		return []column{
			{"id", &w.ID}, {"organisation_id", &w.Organisation}, {"key_id", &w.Key}, {"slug", &w.Slug}, {"name", &w.Name},
			{"trust", object(&w.Trust)}, {"ttl", &w.TTL}, {"sealed", &w.Sealed}, {"status", &w.Status}, {"created_by", &w.CreatedBy},
			{"created_at", &w.CreatedAt}, {"updated_at", &w.UpdatedAt},
		}
	},
}

// WorkloadIdentities returns the workload identities of an organisation, newest first.
func (q Queries) WorkloadIdentities(ctx context.Context, organisation string) ([]WorkloadIdentity, error) {
	return workloadTable.list(ctx, q.Reader, `
		WHERE organisation_id = $1
		ORDER BY id DESC`, organisation)
}

// WorkloadIdentity returns the workload identity with this id or slug.
func (q Queries) WorkloadIdentity(ctx context.Context, organisation, ref string) (WorkloadIdentity, error) {
	return workloadTable.one(ctx, q.Reader, `
		WHERE organisation_id = $1 AND (id = $2 OR slug = $2)`, organisation, ref)
}

// AnyWorkloadIdentity returns the workload identity with this id, of whatever organisation
// and status.
func (q Queries) AnyWorkloadIdentity(ctx context.Context, id string) (WorkloadIdentity, error) {
	return workloadTable.one(ctx, q.Reader, `
		WHERE id = $1`, id)
}

// ActiveWorkloadIdentities returns the active workload identities of all organisations.
func (q Queries) ActiveWorkloadIdentities(ctx context.Context) ([]WorkloadIdentity, error) {
	return workloadTable.list(ctx, q.Reader, `
		WHERE status = 'active'
		ORDER BY id`)
}

// CreateWorkloadIdentity stores a workload identity. A slug in use is a conflict, unless the
// service key of the other was deleted: then the other is deleted too.
func (tx *Tx) CreateWorkloadIdentity(ctx context.Context, w WorkloadIdentity) error {
	const clean = `
		DELETE FROM workload_identities
		WHERE organisation_id = $1 AND key_id IN (SELECT id FROM gateway_keys WHERE status = 'revoked')`
	if err := tx.exec(ctx, journal.WorkloadIdentities, "workload identities", clean, w.Organisation); err != nil {
		return err
	}
	return workloadTable.insert(ctx, tx, w)
}

// UpdateWorkloadIdentity replaces the workload identity with w's id.
func (tx *Tx) UpdateWorkloadIdentity(ctx context.Context, w WorkloadIdentity) error {
	return workloadTable.update(ctx, tx, w)
}

// DeleteWorkloadIdentity deletes a workload identity.
func (tx *Tx) DeleteWorkloadIdentity(ctx context.Context, id string) error {
	const text = `
		DELETE FROM workload_identities
		WHERE id = $1`
	return tx.write(ctx, journal.WorkloadIdentities, "workload identity", text, id)
}
