package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"modelgate/cmd/modelgate/gateway"
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
		ask, err := gate()
		if err != nil {
			return err
		}
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
		response, err := ask.Do(ctx, gateway.Request{Method: http.MethodPost, Path: "/v1/explain", Body: question})
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
		p.printLine("✗ %d: %s", e.Status, gateway.ErrorMessage(e.Error))
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

func (p *program) explainPast(ctx context.Context, ask *gateway.Client, id string, asJSON bool) error {
	response, err := ask.Do(ctx, gateway.Request{Method: http.MethodGet, Path: "/v1/explain/" + id})
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

// gateway adds the flags for the address of a gateway and its key. The returned function must
// be called after parsing. Without a key, the session of login is used.
func (f *flags) gateway() func() (*gateway.Client, error) {
	address := f.address()
	key := f.text("key", "MODELGATE_BOOTSTRAP_KEY", "", "gateway `key`; without one, the session of modelgate login is used")
	return func() (*gateway.Client, error) {
		o := address()
		o.Key = *key
		return connect(o)
	}
}

// connect returns a client of a gateway.
func connect(o gateway.Options) (*gateway.Client, error) {
	to, err := gateway.New(o)
	if errors.Is(err, gateway.ErrAddress) {
		err = usage("%w", err)
	}
	return to, err
}
