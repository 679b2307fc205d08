package workloads

import (
	"context"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// Fill checks what a file says of a workload identity and stores it in w, whose type does not
// change. Before is what was stored; nil is a new one. The service key is not checked.
func Fill(ctx context.Context, a *route.API, before, w *store.WorkloadIdentity, e Entry) error {
	w.Name, w.Status = e.Name, e.Status
	if err := set(a, "", w, e.Type, e.Fields); err != nil {
		return err
	}
	if before == nil {
		return sign(ctx, a, w)
	}
	return signAgain(ctx, a, before, w)
}

// Put stores w, which a file describes, instead of before; nil is a new workload identity. The
// caller must be allowed to rotate its service key.
func (r Routes) Put(ctx context.Context, a *route.API, c *route.Caller, before *store.WorkloadIdentity, w store.WorkloadIdentity) error {
	f := &family{r, a}
	if before == nil {
		w.ID, w.CreatedBy, w.CreatedAt, w.UpdatedAt = c.NewID(), c.Actor(), c.Now, c.Now
		return f.insert(ctx, c, &w)
	}
	w.UpdatedAt = c.NextUpdateTime(before.UpdatedAt)
	return f.write(ctx, c, w, before.UpdatedAt, func(tx *store.Tx) error { return tx.UpdateWorkloadIdentity(ctx, w) })
}

// Remove removes a workload identity that a file no longer has.
func Remove(ctx context.Context, c *route.Caller, w store.WorkloadIdentity) error {
	return c.Change(ctx, func(tx *store.Tx) error { return tx.DeleteWorkloadIdentity(ctx, w.ID) })
}
