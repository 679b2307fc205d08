package route

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
)

const (
	idempotencyKey = "Idempotency-Key"

	// idempotencyTime is how long a repeated request gets the response of the first.
	idempotencyTime = 24 * time.Hour

	maxIdempotencyKey = 255 // characters
)

// idempotent is a request whose repetition gets the same response. The database has only
// hashes of the key, and the response is sealed with the key and the caller's credential,
// since it may contain a secret that is shown once.
type idempotent struct {
	row  store.IdempotentRequest
	seal cipher.AEAD
}

// acceptsIdempotencyKey reports whether a route creates something. Requests with PUT and
// DELETE may be repeated anyway.
func (r *Route) acceptsIdempotencyKey() bool {
	return r.Method == http.MethodPost && r.Resource != "" && !r.Open && !r.Data && r.protocol == nil
}

// idempotencyParam returns the header's entry in the OpenAPI document.
func idempotencyParam() *huma.Param {
	least, longest := 1, maxIdempotencyKey
	return &huma.Param{Name: idempotencyKey, In: "header",
		Description: "A new key for each request: for 24 hours its repetitions get the response of the first, with Idempotency-Replayed: true",
		Schema:      &huma.Schema{Type: huma.TypeString, MinLength: &least, MaxLength: &longest}}
}

// readIdempotencyKey sets what makes a request of c idempotent, if its client asks for it.
func (r *Route) readIdempotencyKey(req *http.Request, c *Caller) error {
	values := req.Header[idempotencyKey]
	if len(values) == 0 || r.Method != http.MethodPost {
		return nil
	}
	key := values[0]
	switch {
	case !r.acceptsIdempotencyKey():
		return Invalid(idempotencyKey, "is not supported by this route")
	case len(values) > 1, len(key) == 0, len(key) > maxIdempotencyKey,
		strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }):
		return Invalid(idempotencyKey, "must be 1 to %d visible ASCII characters long, sent once", maxIdempotencyKey)
	}
	var credential strings.Builder
	for _, name := range [...]string{api.HeaderKey, "Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
		credential.WriteString("\n" + req.Header.Get(name))
	}
	if strings.TrimSpace(credential.String()) == "" {
		return Invalid(idempotencyKey, "needs the key of the caller in x-gateway-api-key or authorization")
	}
	hash := func(parts ...string) [sha256.Size]byte { return sha256.Sum256([]byte(strings.Join(parts, "\x00"))) }
	id, secret := hash("id", c.KeyID, c.UserID, credential.String(), key), hash("seal", credential.String(), key)
	asks := hash(req.Method, req.URL.Path, req.URL.RawQuery, string(c.body))
	block, err := aes.NewCipher(secret[:])
	if err != nil {
		return err
	}
	i := new(idempotent)
	if i.seal, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		return err
	}
	i.row = store.IdempotentRequest{ID: hex.EncodeToString(id[:]), Request: hex.EncodeToString(asks[:]), CreatedAt: c.Now}
	c.idempotent = i
	return nil
}

// replay writes the response of an earlier request with the same key. It returns false
// if there is none.
func (a *API) replay(ctx context.Context, c *Caller, out *bufferedResponse) (bool, error) {
	i := c.idempotent
	if i == nil {
		return false, nil
	}
	before, err := a.DB.IdempotentRequest(ctx, i.row.ID)
	if apierr.IsNotFound(err) || err == nil && c.Now.Sub(before.CreatedAt) >= idempotencyTime {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if before.Request != i.row.Request {
		return false, Invalid(idempotencyKey, "was sent with another request; send a new key with this one")
	}
	sealed, _ := base64.StdEncoding.DecodeString(before.Response)
	body, err := i.seal.Open(nil, nil, sealed, []byte(i.row.ID))
	if err != nil {
		return false, apierr.New(apierr.Conflict, "a request with this Idempotency-Key is in progress, or its response was lost; read the object before you send another").WithParam(idempotencyKey)
	}
	out.header.Set("Content-Type", "application/json")
	out.header.Set("Idempotency-Replayed", "true")
	out.body.Write(body)
	c.noted = true // the change is in the audit log
	return true, nil
}

// remember stores the response of the request for its repetitions.
func (a *API) remember(ctx context.Context, c *Caller, out *bufferedResponse) {
	i := c.idempotent
	if i == nil || !c.noted || out.status != http.StatusOK {
		return
	}
	sealed := base64.StdEncoding.EncodeToString(i.seal.Seal(nil, nil, out.body.Bytes(), []byte(i.row.ID)))
	if err := a.DB.SetIdempotentResponse(context.WithoutCancel(ctx), i.row.ID, sealed, c.Now.Add(-idempotencyTime)); err != nil {
		a.Logger.Error("response for an idempotency key not stored", "request", c.RequestID, "err", err.Error())
	}
}

// pruneIdempotent removes the stored responses whose time is over.
func (a *API) pruneIdempotent(ctx context.Context, now time.Time, last bool) error {
	if last || !a.DB.Ready() {
		return nil
	}
	return a.DB.PruneIdempotentRequests(ctx, now.Add(-idempotencyTime))
}
