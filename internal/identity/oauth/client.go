package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Client is what a client says of itself (RFC 7591, section 2). It may say anything: only its
// redirect URIs, and the host of an id that is an address, are more than words.
type Client struct {
	ID           string   `json:"client_id"`
	Name         string   `json:"client_name"`
	RedirectURIs []string `json:"redirect_uris"`
	Method       string   `json:"token_endpoint_auth_method"`
	GrantTypes   []string `json:"grant_types"`
	Secret       string   `json:"client_secret"`
}

// Limits of what a client says of itself.
const (
	maxClientName    = 100 // characters
	maxRedirectURIs  = 20
	maxDocument      = 64 << 10 // bytes
	documentTime     = 5 * time.Second
	shortestDocument = time.Minute
	longestDocument  = 24 * time.Hour
	maxDocuments     = 1000
	refusalTime      = 10 * time.Second // in which a failed document is not fetched again
)

// Check returns an error for a client that cannot be served. Its name loses what cannot be seen.
func (c *Client) Check() *Error {
	c.Name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) { // also what reverses the direction of text
			return -1
		}
		return r
	}, strings.ToValidUTF8(c.Name, "")))
	if r := []rune(c.Name); len(r) > maxClientName {
		c.Name = string(r[:maxClientName])
	}
	if n := len(c.RedirectURIs); n == 0 || n > maxRedirectURIs {
		return NewError(InvalidRedirect, fmt.Sprintf("redirect_uris must have 1 to %d addresses", maxRedirectURIs))
	}
	for _, uri := range c.RedirectURIs {
		if err := checkRedirectURI(uri); err != nil {
			return NewError(InvalidRedirect, fmt.Sprintf("the redirect URI %.100q is refused: %s", uri, err))
		}
	}
	if len(c.GrantTypes) > 0 && !slices.Contains(c.GrantTypes, CodeGrant) {
		return NewError(InvalidMetadata, "grant_types must have "+CodeGrant)
	}
	return nil
}

// HasOnlyLoopback reports whether all redirect URIs lead to the host of the browser, so that any
// program there may claim to be the client.
func (c *Client) HasOnlyLoopback() bool {
	return !slices.ContainsFunc(c.RedirectURIs, func(uri string) bool { return !isLoopbackURI(uri) })
}

// Doer sends requests without following redirects. A guarded request may go only where
// clients may send requests. upstream.Client implements it.
type Doer interface {
	Do(req *http.Request, guarded bool) (*http.Response, error)
}

// Documents are the documents of clients whose id is the address of their document. They are
// fetched when somebody who signed in is asked about the client, and cached as their server
// says, for a minute to a day. It is safe for concurrent use.
type Documents struct {
	client Doer

	mu    sync.Mutex
	known map[string]*document // by client id; guarded by mu
}

// document is a client as its server described it, or why there is none.
type document struct {
	mu     sync.Mutex
	client Client    // guarded by mu, like the following
	err    error     // nil if there is a client
	until  time.Time // when it is fetched again
}

// NewDocuments returns documents that are fetched with client.
func NewDocuments(client Doer) *Documents {
	return &Documents{client: client, known: make(map[string]*document)}
}

// IsDocument reports whether a client id is the address of a document.
func IsDocument(id string) bool { return strings.HasPrefix(id, "https://") }

// Find returns the client with this id. Allow returns an error for addresses that must not be
// asked. An error says what a person or a developer can do about it.
func (d *Documents) Find(ctx context.Context, id string, now time.Time, allow func(*url.URL) error) (Client, error) {
	u, err := checkDocumentAddress(id)
	if err == nil {
		err = allow(u)
	}
	if err != nil {
		return Client{}, err
	}
	doc := d.entry(id)
	doc.mu.Lock()
	defer doc.mu.Unlock()
	if !now.Before(doc.until) {
		var life time.Duration
		if doc.client, life, doc.err = d.fetch(ctx, id); doc.err != nil {
			life = refusalTime
		}
		doc.until = now.Add(life)
	}
	return doc.client, doc.err
}

// checkDocumentAddress returns the address of a document, which has a path and one spelling.
func checkDocumentAddress(id string) (*url.URL, error) {
	u, err := url.Parse(id)
	if err != nil || len(id) > maxURI || strings.ContainsFunc(id, isUnsafe) || u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		strings.Contains(id, "#") || len(u.Path) < 2 || path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") {
		return nil, errors.New("a client id that is an address must be https, with a path and without a user, fragment or dot segments")
	}
	return u, nil
}

func (d *Documents) entry(id string) *document {
	d.mu.Lock()
	defer d.mu.Unlock()
	if doc := d.known[id]; doc != nil {
		return doc
	}
	for other := range d.known { // any: it is fetched again when it is needed
		if len(d.known) < maxDocuments {
			break
		}
		delete(d.known, other)
	}
	doc := new(document)
	d.known[id] = doc
	return doc
}

// fetch reads a document. It does not end with the request, since others may wait for it.
func (d *Documents) fetch(ctx context.Context, id string) (c Client, life time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), documentTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, id, nil)
	if err != nil {
		return c, 0, err
	}
	req.Header.Set("Accept", "application/json")
	res, err := d.client.Do(req, true)
	if err != nil {
		return c, 0, fmt.Errorf("the document of the client cannot be fetched: %w", err)
	}
	defer res.Body.Close()
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode != http.StatusOK || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return c, 0, fmt.Errorf("the address of the client responds with the status %d and not with a JSON document; redirects are not followed", res.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxDocument+1))
	switch {
	case err != nil:
		return c, 0, fmt.Errorf("reading the document of the client: %w", err)
	case len(text) > maxDocument:
		return c, 0, fmt.Errorf("the document of the client is larger than %d bytes", maxDocument)
	case json.Unmarshal(text, &c) != nil:
		return c, 0, errors.New("the document of the client is not a JSON object of the expected shape")
	case c.ID != id:
		return c, 0, errors.New("the document of the client has another client_id than its own address")
	case c.Secret != "" || c.Method != "" && c.Method != "none":
		return c, 0, errors.New("the document of the client asks for client authentication, which is not supported: token_endpoint_auth_method must be none")
	}
	if err := c.Check(); err != nil {
		return c, 0, errors.New("the document of the client is refused: " + err.Description)
	}
	return c, lifeOf(res.Header), nil
}

// lifeOf returns for how long a response may be cached (RFC 9111), within our bounds.
func lifeOf(h http.Header) time.Duration {
	for directive := range strings.SplitSeq(strings.ToLower(h.Get("Cache-Control")), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch name {
		case "no-store", "no-cache":
			return shortestDocument
		case "max-age":
			if n, err := strconv.ParseInt(strings.Trim(value, `"`), 10, 32); err == nil {
				return min(max(time.Duration(n)*time.Second, shortestDocument), longestDocument)
			}
		}
	}
	return shortestDocument
}
