// Package respcache stores responses of models, to be sent again for equal
// requests.
//
// A [Store] keeps an [Entry] by its [Key], which the caller derives from
// everything that decides about the bytes of a response. It guarantees that an
// entry is returned only to the tenant that stored it, as it was stored, and before
// it expires. [Invalidations] say which entries are not served any more. It does not
// decide which responses may be stored (see pipeline).
package respcache

import (
	"context"
	"time"

	"modelgate/internal/dialect"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
)

// Key identifies equal requests: a SHA-256 of everything that decides about the
// response.
type Key [32]byte

// Tenant is the owner of entries.
type Tenant struct{ Organisation, Workspace string }

// Entry is a stored response. It is immutable once stored.
type Entry struct {
	Owner Tenant `json:"owner"`

	// Expires is when the entry is not served any more.
	Expires time.Time `json:"expires"`
	// Generation is that of [Invalidations] when the request began that the
	// response is for.
	Generation int64 `json:"generation,omitempty"`

	// Namespace, Config and KeyID are those of the request; each may be empty.
	// Invalidations select by them.
	Namespace string `json:"namespace,omitempty"`
	Config    string `json:"config,omitempty"`
	KeyID     string `json:"key_id,omitempty"`

	Status      int    `json:"status"`
	ContentType string `json:"content_type,omitempty"`
	Encoding    string `json:"encoding,omitempty"` // the content coding of Body
	// Form says how Body is sent.
	Form Form `json:"form"`

	// Model, Finish, Usage and Params are what was read of the response; see
	// dialect.ResponseInfo. Upstream is the model that was sent to the provider.
	Model    string                `json:"model,omitempty"`
	Upstream string                `json:"upstream,omitempty"`
	Finish   string                `json:"finish,omitempty"`
	Usage    llm.Usage             `json:"usage"`
	Params   []dialect.ParamChange `json:"params,omitempty"`
	// Terminated is true if the stream has its terminator.
	Terminated bool `json:"terminated,omitempty"`

	// Cost is what the response cost. Priced is false if that is unknown.
	Cost   catalog.NanoDollars `json:"cost,omitempty"`
	Priced bool                `json:"priced,omitempty"`

	Body []byte `json:"-"`
}

// Form is the form in which a body is sent to the client.
type Form uint8

// Forms.
const (
	Complete Form = iota + 1 // at once
	Events                   // a stream of the client's dialect, event by event
	Raw                      // bytes of pass-through or of a file
)

// overhead is the memory of an entry in addition to its body and strings, in
// bytes.
const overhead = 600

// size returns the approximate memory of an entry in bytes.
func (e *Entry) size() int {
	n := overhead + len(e.Body) + len(e.Namespace) + len(e.Config) + len(e.ContentType) + len(e.Model)
	for _, p := range e.Params {
		n += 48 + len(p.Name) + len(p.Note)
	}
	return n
}

// Selector selects the entries of a tenant to invalidate. Empty fields select
// any; all given fields must match.
type Selector struct {
	Namespace string
	Config    string
	KeyID     string // of the gateway key whose request stored the entry
}

// selects reports whether s selects e.
func (s Selector) selects(e *Entry) bool {
	return (s.Namespace == "" || s.Namespace == e.Namespace) && (s.Config == "" || s.Config == e.Config) &&
		(s.KeyID == "" || s.KeyID == e.KeyID)
}

// Store keeps entries. It is safe for concurrent use. It may return entries that
// were invalidated.
type Store interface {
	// Get returns the entry of a key, or nil if there is none that may be served
	// at now.
	Get(ctx context.Context, owner Tenant, key Key, now time.Time) (*Entry, error)
	// Put stores an entry, which must not change any more. It replaces the entry
	// of the key. It does not wait for a disk or a network.
	Put(ctx context.Context, key Key, e *Entry) error
}
