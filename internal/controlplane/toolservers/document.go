package toolservers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/provider/toolserver/openapi"
	"modelgate/internal/store"
)

// fetchTime is the time limit of fetching a document.
const fetchTime = 20 * time.Second

// API is what the document of an API says of it, in a response.
type API struct {
	Title   string   `json:"title"`
	Version string   `json:"version"`
	Tools   int      `json:"tools" doc:"Number of operations that are tools"`
	LeftOut []string `json:"left_out" doc:"Operations and parameters without a tool, with the reason"`
}

func apiOf(a *store.ToolAPI) *API {
	if a == nil {
		return nil
	}
	return &API{a.Title, a.Version, a.Tools, append([]string{}, a.LeftOut...)}
}

var errNoDocument = route.Invalid("configurations.document", "belongs to the transport openapi; leave it and document_url out")

// useDocument reads the document of an API, which it fetches if only its address is given. The
// address of the integration is from then on the only one that is used: no later document
// changes it.
func (f *family) useDocument(ctx context.Context, i *store.ToolIntegration) error {
	const field = "configurations.document"
	s := &i.Settings
	if s.API = nil; toolserver.Transport(i.Transport) != toolserver.OpenAPI {
		if s.Document != "" || s.DocumentURL != "" {
			return errNoDocument
		}
		return nil
	}
	if err := f.slots.Take(i.Organisation); err != nil { // reading a document takes a while
		return err
	}
	defer f.slots.Leave(i.Organisation)
	text := []byte(s.Document)
	if s.DocumentURL != "" {
		if _, err := f.checkAddress(i.Organisation, field+"_url", s.DocumentURL); err != nil {
			return err
		}
	}
	if len(text) == 0 {
		if s.DocumentURL == "" {
			return route.Invalid(field, "is required for the transport openapi, or document_url")
		}
		var err error
		if text, err = f.fetchDocument(ctx, i); err != nil {
			return route.Invalid(field+"_url", "cannot be read: %s", problem(err))
		}
	}
	text, err := documentJSON(text)
	if err != nil {
		return route.Invalid(field, "is invalid: %s", problem(err))
	}
	doc, err := openapi.Parse(text)
	if err != nil {
		return route.Invalid(field, "is invalid: %s", problem(err))
	}
	s.Document, s.API = string(text), &store.ToolAPI{Title: doc.Title, Version: doc.Version, Tools: len(doc.Tools), LeftOut: doc.LeftOut}
	if i.URL == "" {
		i.URL = serverOf(doc, s.DocumentURL)
	}
	if u, err := url.Parse(i.URL); err != nil || i.URL == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return route.Invalid("url", "must be the address of the API, without a query: the document names none that can be used")
	}
	return nil
}

// serverOf returns the first address that a document names, empty for none.
func serverOf(doc *openapi.Document, from string) string {
	if len(doc.Servers) == 0 {
		return ""
	}
	u, err := url.Parse(doc.Servers[0])
	if err != nil {
		return ""
	}
	if base, err := url.Parse(from); err == nil && from != "" {
		u = base.ResolveReference(u)
	}
	if u.Scheme == "" || u.Host == "" {
		return ""
	}
	return u.String()
}

// fetchDocument fetches the document of an integration, without its credentials.
func (f *family) fetchDocument(ctx context.Context, i *store.ToolIntegration) ([]byte, error) {
	if f.Fetch == nil {
		return nil, errors.New("documents are not fetched here; set document")
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, i.Settings.DocumentURL, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, application/yaml, */*;q=0.5")
	resp, err := f.Fetch(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the status is %d; redirects are not followed", resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, openapi.MaxDocument+1))
	if err == nil && len(text) > openapi.MaxDocument {
		err = fmt.Errorf("the document has more than %d bytes", openapi.MaxDocument)
	}
	return text, err
}

// documentJSON returns a document as compact JSON.
func documentJSON(text []byte) ([]byte, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if !strings.HasPrefix(strings.TrimSpace(string(text[:min(len(text), 1024)])), "{") {
		var err error
		if text, err = yamlToJSON(text); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
