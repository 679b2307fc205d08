package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"modelgate/cmd/modelgate/gateway"
	"modelgate/internal/base/moment"
)

const logsExportHelp = `Exports a part of the request log to a file, through a running gateway; the key needs the
scope logs.export. Ctrl-C stops the export. With --offline it reads the log itself, without a gateway or a
key: that of all workspaces, unless --workspace names one.

--filters takes an object such as {"status_code": [429]}; see docs/exports.md.`

// logsExport exports a part of the log through a gateway and downloads the file.
func logsExport(p *program) *cobra.Command {
	f := p.flags("export",
		logsExportHelp,
		"modelgate logs export --out november.csv --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z\nmodelgate logs export --out week.parquet --since 7d\n"+
			"modelgate logs export --out week.csv --since 7d --offline --data data")
	gate := f.gateway()
	offline := newOfflineLog(f)
	out := f.String("out", "", "the `file` to write")
	format := f.String("format", "", "`format` of the file: jsonl, csv or parquet; defaults to the file's extension, otherwise jsonl")
	from := f.String("from", "", "`time` such as 2026-11-01T00:00:00Z, or a span before now such as 7d; defaults to a day before the end")
	to := f.String("to", "", "`time`; defaults to now")
	since, until := f.String("since", "", "`time`, the same as --from"), f.String("until", "", "`time`, the same as --to")
	fields := f.String("fields",
		"id,created_at,ai_org,ai_model,response_status_code,req_units,res_units,total_units,cost,response_time,metadata", "`names` of fields")
	workspace := f.String("workspace", "", "id or slug of the `workspace`; required for organisation keys")
	filters := f.String("filters", "{}", "additional filters as `JSON`")
	return f.run(func(ctx context.Context) error {
		if *out == "" {
			return usage("--out is required")
		}
		if *from != "" && *since != "" || *to != "" && *until != "" {
			return usage("--since and --until are other names of --from and --to; use one of them")
		}
		body, err := exportBody(cmp.Or(*from, *since), cmp.Or(*to, *until), *filters, time.Now())
		if err != nil {
			return err
		}
		body["format"], body["requested_data"] = formatOf(*format, *out), strings.Split(*fields, ",")
		if *offline.chosen {
			if f.hasFlag("url") || f.hasFlag("key") {
				return usage("--offline asks no gateway: leave out --url and --key")
			}
			return offline.export(ctx, p, body, *workspace, *out)
		}
		if *workspace != "" {
			body["workspace_id"] = *workspace
		}
		ask, err := gate()
		if err != nil {
			return err
		}
		return (&exporter{ask: ask}).run(ctx, p, body, *out)
	})
}

// run exports to a file, until Ctrl-C.
func (e *exporter) run(ctx context.Context, p *program, body map[string]any, file string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := e.start(ctx, body); err != nil {
		return err
	}
	rows, err := e.await(ctx)
	if err != nil {
		return err
	}
	var at struct {
		URL string `json:"signed_url"`
	}
	if err := e.call(ctx, http.MethodGet, "/download", nil, &at); err != nil {
		return err
	}
	size, err := fetch(ctx, e.ask, e.address(at.URL), file)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "%s, %s in %s\n", counted(rows, "row"), counted(size, "byte"), file)
	return e.reportOmissions(ctx, p, body, rows)
}

// mostExportedRows is the limit of the rows of an export, the newest of its range.
const mostExportedRows = 50_000

// reportOmissions prints what the request selected and the file does not contain.
func (e *exporter) reportOmissions(ctx context.Context, p *program, body map[string]any, rows int64) error {
	if rows >= mostExportedRows {
		fmt.Fprintf(p.err, "the file has the newest %d entries of the range; export older ones with an earlier --to\n", rows)
	}
	r := gateway.Request{Method: http.MethodGet, Path: "/v1/logs/exports/field-restrictions"}
	if workspace, ok := body["workspace_id"].(string); ok {
		r.Query = url.Values{"workspace_id": {workspace}}
	}
	response, err := e.ask.Do(ctx, r)
	if err != nil {
		return err
	}
	var denied struct {
		Fields []string `json:"denied_fields"`
	}
	if err := json.Unmarshal(response, &denied); err != nil {
		return err
	}
	asked, _ := body["requested_data"].([]string)
	if left := slices.DeleteFunc(denied.Fields, func(f string) bool { return !slices.Contains(asked, f) }); len(left) > 0 {
		fmt.Fprintf(p.err, "the organisation excludes these fields from exports, so the file does not have them: %s\n", strings.Join(left, ", "))
	}
	return nil
}

// formatOf returns the requested format, otherwise the one of the file's extension.
func formatOf(asked, file string) string {
	switch end := strings.TrimPrefix(filepath.Ext(file), "."); {
	case asked != "":
		return asked
	case end == "csv", end == "parquet":
		return end
	}
	return "jsonl"
}

// exportBody returns a request for a time range and additional filters.
func exportBody(from, to, filters string, now time.Time) (map[string]any, error) {
	// The end of the range is exclusive, and requests that have just ended are wanted.
	end, begin := now.UTC().Add(time.Second), time.Time{}
	var err error
	if to != "" {
		if end, err = moment.Parse(to, now, time.Local); err != nil {
			return nil, usage("--to %w", err)
		}
	}
	if begin = end.AddDate(0, 0, -1); from != "" {
		if begin, err = moment.Parse(from, now, time.Local); err != nil {
			return nil, usage("--from %w", err)
		}
	}
	var wanted map[string]any
	if err := json.Unmarshal([]byte(filters), &wanted); err != nil || wanted == nil {
		return nil, usage("--filters must be a JSON object")
	}
	wanted["time_of_generation_min"], wanted["time_of_generation_max"] = begin.UTC(), end.UTC()
	return map[string]any{"filters": wanted}, nil
}

// exporter runs one export.
type exporter struct {
	ask *gateway.Client
	id  string
}

// exportPoll is the interval of reading the export's progress.
const exportPoll = 500 * time.Millisecond

func (e *exporter) start(ctx context.Context, body map[string]any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var made struct{ ID string }
	if err := e.call(ctx, http.MethodPost, "", text, &made); err != nil {
		return err
	}
	e.id = "/" + made.ID
	return e.call(ctx, http.MethodPost, "/start", nil, nil)
}

// await waits until the export has finished and returns its number of rows.
func (e *exporter) await(ctx context.Context) (rows int64, err error) {
	tick := time.NewTicker(exportPoll)
	defer tick.Stop()
	for {
		var now struct {
			Status, Error string
			Rows          int64
		}
		if err := e.call(ctx, http.MethodGet, "", nil, &now); err != nil {
			return 0, e.stop(ctx, err)
		}
		switch now.Status {
		case "success":
			return now.Rows, nil
		case "in_progress":
		default:
			return 0, fmt.Errorf("the export is %s: %s", now.Status, now.Error)
		}
		select {
		case <-ctx.Done():
			return 0, e.stop(ctx, ctx.Err())
		case <-tick.C:
		}
	}
}

// stop stops the export after an interrupt.
func (e *exporter) stop(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := e.call(short, http.MethodPost, "/cancel", nil, nil); err != nil {
		return fmt.Errorf("stopping the export: %w", err)
	}
	return fmt.Errorf("stopped: %w", ctx.Err())
}

func (e *exporter) call(ctx context.Context, method, below string, body []byte, into any) error {
	response, err := e.ask.Do(ctx, gateway.Request{Method: method, Path: "/v1/logs/exports" + e.id + below, Body: body})
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(response, into)
}

// address returns the address of the file. A path of the gateway is relative to the
// address that the command uses, because the public address may not be reachable here.
func (e *exporter) address(link string) string {
	if _, query, ok := strings.Cut(link, "/v1/logs/exports"+e.id+"/file?"); ok {
		return e.ask.Address() + "/v1/logs/exports" + e.id + "/file?" + query
	}
	return link
}

// fetch downloads a file; on an error no file is left.
func fetch(ctx context.Context, to *gateway.Client, address, file string) (size int64, err error) {
	content, err := to.Fetch(ctx, address) // which is a secret
	if err != nil {
		return 0, fmt.Errorf("downloading a file of the export: %w", err)
	}
	defer content.Close()
	fresh, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return 0, err
	}
	size, err = io.Copy(fresh, content)
	if e := fresh.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(fresh.Name(), file)
	}
	if err != nil {
		os.Remove(fresh.Name())
	}
	return size, err
}
