package manifest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/keys"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/workloads"
	"modelgate/internal/identity/workload"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

var workloadRoutes = workloads.Routes{IssuableKey: keys.Issuable, ReadableKey: keys.Readable}

var workloadKind = kind[settings.WorkloadIdentity, store.WorkloadIdentity]{
	section: "workload_identities", name: "workload_identity",
	entries: func(s *settings.Settings) *[]settings.WorkloadIdentity { return &s.WorkloadIdentities },
	rows:    func(s *state) []store.WorkloadIdentity { return s.workloads },
	key:     func(v *settings.WorkloadIdentity) entryID { return entryID{name: v.Slug} },
	rowKey:  func(_ *state, v *store.WorkloadIdentity) entryID { return entryID{name: v.Slug} },
	read:    (*reader).workload, put: (*plan).workload,
	drop: func(_ *plan, row store.WorkloadIdentity) step { return dropRow(workloads.Remove, row) },
}

// workload checks an entry as the route does that creates workload identities.
func (p *plan) workload(path string, want *settings.WorkloadIdentity, old *store.WorkloadIdentity, _ []string) (step, error) {
	row := rowOr(old, store.WorkloadIdentity{Organisation: p.state.organisation.ID, Slug: want.Slug})
	if old != nil && row.Trust.Type != want.Type {
		return nil, p.file.ErrorAt(path+".type", errors.New("the type of a workload identity cannot be changed; give it another slug"))
	}
	if key := p.state.keyID(want.Key); old != nil {
		row.Key = key // another one ends the keys that were given
	}
	var e workloads.Entry
	if err := json.Unmarshal(text(want), &e); err != nil {
		return nil, err
	}
	if err := workloads.Fill(p.ctx, p.api, old, &row, e); err != nil {
		return nil, err
	}
	return func(ctx context.Context, c *route.Caller) error {
		k, err := c.DB().KeyByHash(ctx, want.Key) // the file may have added it
		if apierr.IsNotFound(err) || err == nil && (k.Organisation != row.Organisation || k.Status == store.KeyRevoked) {
			return p.file.ErrorAt(path+".key_sha256", errors.New("no key has this sha256, or it was revoked"))
		}
		if err != nil {
			return err
		}
		row.Key = k.ID
		return workloadRoutes.Put(ctx, p.api, c, old, row)
	}, nil
}

// keyID returns the id of the key with this hash, empty for none.
func (s *state) keyID(hash string) string {
	for i := range s.keys {
		if s.keys[i].Hash.String() == hash {
			return s.keys[i].ID
		}
	}
	return ""
}

// workload converts a row. One whose key a file cannot contain is left out.
func (r *reader) workload(row *store.WorkloadIdentity) (v settings.WorkloadIdentity, ok bool, err error) {
	if err := json.Unmarshal(text(row.Trust), &v); err != nil {
		return v, false, err
	}
	v.Slug, v.Name, v.Status, v.TTL = row.Slug, row.Name, row.Status, row.TTL
	for i := range r.state.keys {
		if k := &r.state.keys[i]; k.ID == row.Key && k.Status != store.KeyRevoked {
			v.Key = k.Hash.String()
		}
	}
	return v, v.Key != "", nil
}

func (p *plan) normaliseWorkloads() {
	for i := range p.file.WorkloadIdentities {
		v := &p.file.WorkloadIdentities[i]
		orElse(&v.Name, v.Slug)
		orElse(&v.Status, store.Active)
		orElse(&v.Issuer, workload.UsualIssuer(v.Type))
		v.Key = strings.ToLower(v.Key)
		if v.TTL == 0 {
			v.TTL = workloads.DefaultTTL
		}
	}
}
