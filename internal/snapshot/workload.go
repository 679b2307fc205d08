package snapshot

import (
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/identity/access"
)

// Workload is a workload identity. Its short-lived keys have the rights and the limits of
// a service key.
type Workload struct {
	ID      string
	Slug    string
	Key     string        // id of the service key
	Signing secret.String // signs the short-lived keys
}

// workload is a Workload with the identity of its service key.
type workload struct {
	Workload
	key *access.Identity
}

// addWorkloads adds the workload identities whose service key is valid.
func (s *Snapshot) addWorkloads(list []Workload) {
	s.workloads = make(map[string]*workload, len(list))
	if len(list) == 0 {
		return
	}
	keys := make(map[string]*access.Identity, len(list))
	for _, w := range list {
		keys[w.Key] = nil
	}
	for _, id := range s.keys {
		if known, asked := keys[id.KeyID]; asked && (known == nil || !lastsLonger(known, id)) {
			keys[id.KeyID] = id
		}
	}
	for _, w := range list {
		if id := keys[w.Key]; id != nil {
			s.workloads[w.ID] = &workload{w, id}
		}
	}
}

// lastsLonger reports whether a key with the secret of id can be used longer than with
// that of other, which was replaced if they differ.
func lastsLonger(id, other *access.Identity) bool {
	return id.ExpiresAt.IsZero() || !other.ExpiresAt.IsZero() && id.ExpiresAt.After(other.ExpiresAt)
}

// WorkloadKey returns a short-lived key of a workload identity that expires at ends, or
// earlier with its service key. It is valid on this node at once, and on others as soon as
// they know the workload identity. An error is of kind Unavailable if this node does not know it
// yet.
func (s *Snapshot) WorkloadKey(g access.WorkloadGrant, now time.Time) (secret.String, *access.Identity, error) {
	w := s.workloads[g.Workload]
	if w == nil {
		return secret.String{}, nil, apierr.New(apierr.Unavailable, "the workload identity was created, changed or disabled a moment ago, or its service key is not valid; try again in some seconds")
	}
	id := w.key.ForWorkload(w.Slug, g)
	if id.Disabled || id.Expired(now) {
		return secret.String{}, nil, apierr.New(apierr.Forbidden, "the service key of the workload identity is disabled or has expired")
	}
	g.Expires = id.ExpiresAt.Unix()
	key, err := access.NewWorkloadKey(w.Signing, g)
	return key, id, err
}

// workloadOwner returns the owner of a short-lived key.
func (s *Snapshot) workloadOwner(key string, now time.Time) (*access.Identity, error) {
	var w *workload
	g, ok := access.ParseWorkloadKey(key, func(id string) (secret.String, bool) {
		if w = s.workloads[id]; w == nil {
			return secret.String{}, false
		}
		return w.Signing, true
	})
	if !ok {
		return nil, refused("the gateway key is unknown, or its workload identity was disabled or deleted; exchange a token for another")
	}
	id := w.key.ForWorkload(w.Slug, g)
	switch {
	case id.Disabled:
		return nil, refused("the service key of the workload identity is disabled; ask an admin to enable it").WithCode("disabled_api_key")
	case id.Expired(now):
		return nil, refused("the gateway key has expired; exchange a token for another").WithCode("expired_api_key")
	}
	return id, nil
}
