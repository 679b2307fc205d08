package toolauth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"time"

	"modelgate/internal/base/secret"
)

// Paths of the gateway that browsers open, and of its document as a client.
const (
	LinkPath     = "/oauth/connect"
	CallbackPath = "/oauth/callback"
	DocumentPath = "/oauth/client.json"
)

// Callback returns what is behind [CallbackPath] in the redirect URI for an authorization server:
// nothing if it names its issuer in responses (RFC 9207), otherwise something of its own, so
// that no other server can have its responses sent there.
// https://www.rfc-editor.org/rfc/rfc9700#section-4.4.2
func (m *Metadata) Callback() string {
	if m.NamesIssuer {
		return ""
	}
	sum := sha256.Sum256([]byte(m.Issuer))
	return hex.EncodeToString(sum[:16])
}

// LinkTime is how long a link may be opened, and how long the sign-in may take after that.
const LinkTime = 10 * time.Minute

// Link is the way of one user to the sign-in at one tool server.
type Link struct {
	Kind         string   `json:"kind"` // linkKind; what else the box seals has another
	ID           string   `json:"link"`
	Organisation string   `json:"organisation"`
	Workspace    string   `json:"workspace"` // id
	Server       string   `json:"server"`    // id
	User         string   `json:"user"`      // id
	Scopes       []string `json:"scopes,omitempty"`
	Until        int64    `json:"until"` // Unix time in seconds
}

const linkKind = "modelgate tool sign-in"

// sealedPrefix is what the box begins its texts with; linkPrefix is instead of it in links.
const (
	sealedPrefix = "sealed:v1:"
	linkPrefix   = "mgl_"
)

// Links makes and reads links.
type Links struct {
	Box     *secret.Box   // shared by the nodes; nil makes no links
	Address func() string // of the gateway, without a trailing slash
}

// New returns the address of a page for l, of which ID, Kind and Until are set.
func (f Links) New(l Link, now time.Time) (address, id string) {
	l.Kind, l.ID, l.Until = linkKind, rand.Text(), now.Add(LinkTime).Unix()
	raw, err := json.Marshal(l)
	if err != nil {
		panic(err) // it has only texts and numbers
	}
	text := linkPrefix + strings.TrimPrefix(f.Box.Seal(secret.New(string(raw))), sealedPrefix)
	return f.Address() + LinkPath + "?" + url.Values{"link": {text}}.Encode(), l.ID
}

// Parse returns the link in the query of an address. One that has expired is an error.
func (f Links) Parse(text string, now time.Time) (l Link, err error) {
	text, ours := strings.CutPrefix(text, linkPrefix)
	if f.Box == nil || !ours {
		return l, errLink
	}
	raw, err := f.Box.Open(sealedPrefix + text)
	if err != nil || json.Unmarshal([]byte(raw.Reveal()), &l) != nil || l.Kind != linkKind || now.Unix() >= l.Until {
		return Link{}, errLink
	}
	return l, nil
}

var errLink = errors.New("the link is incomplete or has expired; repeat the call that gave it to you, which gives you another")
