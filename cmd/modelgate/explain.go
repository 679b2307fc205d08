package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"modelgate/internal/base/oserr"
	"modelgate/internal/dataplane"
	"modelgate/internal/records/reqlog"
)

// explain prints why a running gateway routed a request as it did, or where it would
// route one.
func explain(p *program) *cobra.Command {
	f := p.flags("explain FILE|REQUEST-ID",
		"Prints where a request would go and why, as a tree; FILE holds {\"request\": {…}, \"config\": {…}}.\nWith a request id it prints what happened to that request. A gateway must be running.",
		`modelgate explain request.json
modelgate explain 01a218ea-0e12-7569-a664-4234e517dd38`)
	gate := f.gateway()
	asJSON := f.Bool("json", false, "print JSON")
	return f.run(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		ask := gate()
		if _, err := reqlog.ParseID(f.Arg(0)); err == nil {
			return p.explainPast(ctx, ask, f.Arg(0), *asJSON)
		}
		question, err := os.ReadFile(f.Arg(0))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is neither a file nor a request id", f.Arg(0))
		}
		if err != nil {
			return err
		}
		response, err := ask.do(ctx, http.MethodPost, "/explain", question)
		if err != nil || *asJSON {
			return p.print(response, err)
		}
		var e dataplane.ExplainResponse
		if err := json.Unmarshal(response, &e); err != nil {
			return err
		}
		p.printExplanation(e)
		return nil
	})
}

func (p *program) printExplanation(e dataplane.ExplainResponse) {
	fmt.Fprint(p.out, stripLines(e.Tree))
	for _, d := range e.Decisions {
		p.printLine("%s: %s", d.Path, d.Text)
	}
	if e.Attempt != nil {
		p.printLine("→ %s: %s, model %s: %s %s", e.Attempt.Target, providerName(e.Attempt.Slug, e.Attempt.Provider), e.Attempt.Model,
			e.Attempt.Method, e.Attempt.URL)
		if len(e.Attempt.Params) > 0 {
			p.printLine("  parameters: %s", strings.Join(e.Attempt.Params, ", "))
		}
		for _, l := range e.Attempt.Limits {
			p.printLine("  %s", limitLine(l))
		}
	}
	if e.PromptCache != nil {
		p.printLine("%s", promptCacheLine(e.PromptCache))
	}
	if e.Status != http.StatusOK {
		p.printLine("✗ %d: %s", e.Status, errorMessage(e.Error))
	}
}

// promptCacheLine describes what a provider's prompt cache saves.
func promptCacheLine(c *dataplane.PromptCache) string {
	line := fmt.Sprintf("prompt cache of the provider: %s, a prefix of about %d tokens", c.Target, c.Tokens)
	if c.Read != nil && c.Written != nil {
		line += fmt.Sprintf("; reading it saves %.6f dollars, writing it costs %.6f more", *c.Read, *c.Written)
	}
	if c.Recorded != nil {
		line += fmt.Sprintf("; %.6f dollars saved in 30 days", *c.Recorded)
	}
	return line
}

// limitLine describes a limit of an explained request.
func limitLine(l dataplane.Limit) string {
	line := fmt.Sprintf("limit of the %s: %g of %g %s used, %g reserved by others, %g needed",
		strings.TrimSpace(l.Holder+" "+l.Name), l.Used, l.Limit, strings.TrimSpace(l.Type+" "+l.Unit), l.Reserved, l.Claimed)
	if !l.Fits {
		line += ": does not fit"
	}
	return line
}

// pastRequest is the response of GET /v1/explain/{id}.
type pastRequest struct {
	Status      int               `json:"status"`
	OptionIndex string            `json:"option_index"`
	Decisions   []reqlog.Decision `json:"decisions"`
	Attempts    []struct {
		Target   string  `json:"target"`
		Provider string  `json:"provider"`
		Slug     string  `json:"slug"`
		Status   int     `json:"status"`
		Error    string  `json:"error"`
		TookMS   float64 `json:"took_ms"`
	} `json:"attempts"`
}

func (p *program) explainPast(ctx context.Context, ask apiClient, id string, asJSON bool) error {
	response, err := ask.do(ctx, http.MethodGet, "/explain/"+id, nil)
	if err != nil || asJSON {
		return p.print(response, err)
	}
	var e pastRequest
	if err := json.Unmarshal(response, &e); err != nil {
		return err
	}
	for _, d := range e.Decisions {
		p.printLine("%s: %s", d.Path, d.Text)
	}
	for _, a := range e.Attempts {
		result := fmt.Sprint(a.Status)
		if a.Status == 0 {
			result = "no response"
		}
		p.printLine("%s",
			strings.TrimSuffix(fmt.Sprintf("→ %s: %s, %s in %.0f ms: %s", a.Target, providerName(a.Slug, a.Provider), result, a.TookMS, a.Error),
				": "))
	}
	if e.OptionIndex == "" {
		p.printLine("status %d by the gateway itself", e.Status)
		return nil
	}
	p.printLine("status %d by %s", e.Status, e.OptionIndex)
	return nil
}

func (p *program) print(response []byte, err error) error {
	if err != nil {
		return err
	}
	_, err = p.out.Write(append(response, '\n'))
	return err
}

// gateway adds the flags for the address of a gateway and its key. The returned
// function must be called after parsing. Without a key, the session of login is used.
func (f *flags) gateway() func() apiClient {
	address := f.address()
	key := f.text("key", "MODELGATE_BOOTSTRAP_KEY", "", "gateway `key`; without one, the session of modelgate login is used")
	return func() apiClient {
		base := address()
		return apiClient{base + "/v1", cmp.Or(*key, sessionFor(base).Reveal())}
	}
}

// apiClient sends requests to a running gateway.
type apiClient struct{ base, key string }

// request returns a request for a path, with the key.
func (a apiClient) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(body))
	if err != nil || req.URL.Host == "" || req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		return nil, errAddress
	}
	req.Header.Set("x-gateway-api-key", a.key)
	return req, nil
}

// errAddress is the error for an address that no gateway can have.
var errAddress = usage("--url (MODELGATE_URL) must be an http or https address, such as https://gate.example, and --listen (MODELGATE_LISTEN) host:port")

// connectionError returns the error for a request to a gateway that got no response.
func connectionError(req *http.Request, err error) error {
	reason := cmp.Or(oserr.ConnectionReason(err), "no response")
	return fmt.Errorf("cannot reach the gateway at %s: %s; check the address (--url or --listen) and that the gateway runs", req.URL.Host,
		reason)
}

func (a apiClient) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := a.request(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, connectionError(req, err)
	}
	defer res.Body.Close()
	response, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, apiError(res.StatusCode, response)
	}
	return response, nil
}

// apiError returns the gateway's error as an error, with a hint if the key is missing.
func apiError(status int, body []byte) error {
	text := errorMessage(body)
	if status == http.StatusUnauthorized {
		text += " (--key or MODELGATE_BOOTSTRAP_KEY, or sign in with modelgate login)"
	}
	return &statusError{status, text}
}

// statusError is an error that the gateway returned.
type statusError struct {
	code int
	text string
}

// Error implements error.
func (e *statusError) Error() string {
	return fmt.Sprintf("the gateway returned %d: %s", e.code, e.text)
}

// errorMessage returns the message of an error body, or the body if it has none.
func errorMessage(body []byte) string {
	var e struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &e) != nil || e.Message == "" {
		return string(bytes.TrimSpace(body))
	}
	return e.Message
}
