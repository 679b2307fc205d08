package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"modelgate/cmd/modelgate/gateway"
	"modelgate/internal/records/reqlog"
)

const tailHelp = `Prints requests as they finish, one per line: time, status, provider, model, tokens
in and out, latency, and +N for N further attempts. The latest finished requests come
first. A gateway must be running; the key needs the scope logs.list.

The exit code is 0 on Ctrl-C, and 1 if the gateway rejects the request or ends the stream.`

// tail prints the live log of a running gateway.
func tail(p *program) *cobra.Command {
	f := p.flags("tail",
		tailHelp,
		`modelgate tail --status 5xx --explain
modelgate tail --lines 100 --follow=false`)
	gate := f.gateway()
	filters := map[string]*string{
		"provider":       f.String("provider", "", "only responses of this `provider`: an id, or the slug of a managed provider"),
		"status":         f.String("status", "", "only this `status`, such as 429 or 5xx"),
		"outcome":        f.String("outcome", "", "only this `outcome`: success, error, cancelled or other"),
		"model":          f.String("model", "", "only requests for this `model`"),
		"upstream_model": f.String("upstream-model", "", "only requests that were sent upstream with this `model`"),
		"response_model": f.String("response-model", "", "only responses that name this `model`"),
		"target":         f.String("target", "", "only responses of the target with this `path` in its config, such as config.targets[0]"),
		"workspace":      f.String("workspace", "", "only requests of this `workspace`, by id or slug"),
	}
	filters["api_key"] = f.String("api-key", "", "only requests with the gateway key of this `id`")
	explain := f.Bool("explain", false, "print the decisions and attempts of each request")
	lines := f.Int("lines", 10, "print the latest `N` requests first, 0 to 1000")
	follow := f.Bool("follow", true, "continue with requests that finish from now on")
	return f.run(func(ctx context.Context) error {
		if *lines < 0 || *lines > 1000 {
			return usage("--lines must be 0 to 1000, not %d", *lines)
		}
		q := url.Values{}
		for name, v := range filters {
			if *v != "" {
				q.Set(name, *v)
			}
		}
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		ask, err := gate()
		if err != nil {
			return err
		}
		t := &tailer{p: p, ask: ask, query: q, explain: *explain, shown: map[string]bool{}}
		return t.run(ctx, *lines, *follow)
	})
}

// tailer prints log entries.
type tailer struct {
	p       *program
	ask     *gateway.Client
	query   url.Values
	explain bool
	shown   map[string]bool // ids of entries printed first, which the stream may repeat
}

// run opens the stream before it lists earlier entries, so that nothing is missed in
// between.
func (t *tailer) run(ctx context.Context, lines int, follow bool) error {
	var stream io.ReadCloser
	if follow {
		var err error
		if stream, err = t.watch(ctx); err != nil {
			return err
		}
		defer stream.Close()
	}
	if lines > 0 {
		if err := t.before(ctx, lines); err != nil {
			return err
		}
	}
	if !follow {
		return nil
	}
	err := t.follow(stream)
	if ctx.Err() != nil { // Ctrl-C
		return nil
	}
	return err
}

func (t *tailer) watch(ctx context.Context) (io.ReadCloser, error) {
	return t.ask.Open(ctx, gateway.Request{Method: http.MethodGet, Path: "/v1/logs/tail", Query: t.query})
}

// before prints the latest entries, oldest first.
func (t *tailer) before(ctx context.Context, lines int) error {
	q := url.Values{"limit": {strconv.Itoa(lines)}}
	maps.Copy(q, t.query)
	response, err := t.ask.Do(ctx, gateway.Request{Method: http.MethodGet, Path: "/v1/logs", Query: q})
	if err != nil {
		return err
	}
	var page struct{ Data []tailEntry }
	if err := json.Unmarshal(response, &page); err != nil {
		return err
	}
	for _, e := range slices.Backward(page.Data) {
		t.shown[e.ID] = true
		t.print(&e)
	}
	return nil
}

// follow prints the entries of the stream until it ends.
func (t *tailer) follow(stream io.Reader) error {
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return errors.New("the gateway ended the stream")
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		var e struct {
			tailEntry
			Dropped int
		}
		if err := json.Unmarshal(data, &e); err != nil {
			return err
		}
		switch {
		case e.Dropped > 0:
			fmt.Fprintf(t.p.out, "… %s skipped: output too slow\n", counted(e.Dropped, "request"))
		case !t.shown[e.ID]:
			t.print(&e.tailEntry)
		}
	}
}

// tailEntry is the part of a log entry that is printed.
type tailEntry struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	Status    int       `json:"status"`
	Operation string    `json:"operation"`
	Provider  string    `json:"provider"`
	Slug      string    `json:"provider_slug"`
	Model     string    `json:"model"`
	Usage     *struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
	} `json:"usage"`
	Error *struct {
		Code string `json:"code"`
	} `json:"error"`
	Timing struct {
		Total float64 `json:"total_ms"`
	} `json:"timing"`
	Attempts []struct {
		Target   string  `json:"target"`
		Provider string  `json:"provider"`
		Slug     string  `json:"slug"`
		Status   int     `json:"status"`
		Error    string  `json:"error"`
		TookMS   float64 `json:"took_ms"`
	} `json:"attempts"`
	Decisions []reqlog.Decision `json:"decisions"`
}

func (t *tailer) print(e *tailEntry) {
	tokens := "-"
	if e.Usage != nil {
		tokens = fmt.Sprintf("%d>%d", e.Usage.Prompt, e.Usage.Completion)
	}
	line := fmt.Sprintf("%s  %d  %s  %s  %s  %.0fms", e.CreatedAt.Local().Format("15:04:05.000"), e.Status,
		orDash(providerName(e.Slug, e.Provider)), orDash(e.Model), tokens, e.Timing.Total)
	if n := len(e.Attempts); n > 1 {
		line += fmt.Sprintf("  +%d", n-1)
	}
	if e.Error != nil && e.Error.Code != "" {
		line += "  " + e.Error.Code
	}
	t.p.printLine("%s", line)
	if !t.explain {
		return
	}
	t.p.printLine("  %s %s", e.ID, orDash(e.Operation))
	for _, d := range e.Decisions {
		t.p.printLine("  %s: %s", d.Path, d.Text)
	}
	for _, a := range e.Attempts {
		t.p.printLine("%s",
			strings.TrimSuffix(fmt.Sprintf("  → %s: %s, %d in %.0f ms: %s", a.Target, providerName(a.Slug, a.Provider), a.Status, a.TookMS, a.Error),
				": "))
	}
}

// providerName returns the name of a provider: the slug of a managed one with its kind.
func providerName(slug, kind string) string {
	if slug == "" {
		return kind
	}
	return "@" + slug + " (" + kind + ")"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
