package exports_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	reader "github.com/parquet-go/parquet-go"

	"modelgate/internal/controlplane/exports"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
)

// oddEntries are entries of every kind that the log has.
func oddEntries() []*reqlog.Entry {
	return []*reqlog.Entry{
		{},
		{Result: reqlog.Result{Status: 200, Usage: llm.Usage{Known: true, Input: 7, Output: 2}}, Origin: reqlog.Origin{Provider: "openai"}, Input: reqlog.Input{Model: "gpt", Operation: "chat", Config: "c", ConfigVersion: 3}, Sender: reqlog.Sender{KeyID: "k1"}, Durations: reqlog.Durations{Total: 1234567 * time.Microsecond, FirstToken: 250500 * time.Microsecond}, Charge: reqlog.Charge{Priced: true, Cost: 1}},
		{Result: reqlog.Result{Status: 200, Usage: llm.Usage{Known: true}}, Charge: reqlog.Charge{Priced: true}},
		{Result: reqlog.Result{Status: 299, Usage: llm.Usage{Known: true, Input: math.MaxInt32 << 8, Reasoning: 1, Output: 3}}, Charge: reqlog.Charge{Priced: true, Cost: 12_345_678_901_234_567}},
		{Result: reqlog.Result{Status: 300}, Charge: reqlog.Charge{Priced: true, Cost: 120_000_000}},
		{Result: reqlog.Result{Status: 499}, Trace: reqlog.Trace{TraceID: "=cmd|' /C calc'!A0"}, Input: reqlog.Input{Model: "+1", Config: "-x", Prompt: reqlog.Prompt{ID: "p", Slug: "@slug", Version: 2}}},
		{Result: reqlog.Result{Status: 500, ErrorSource: "gateway", ErrorCode: "timeout"}, Input: reqlog.Input{Path: "/v1/things", Model: "a \"quoted\", one;\nwith lines\tand tabs"}, Origin: reqlog.Origin{Provider: "naïve 日本 \U0001f600"}},
		{Result: reqlog.Result{Status: 200}, Input: reqlog.Input{Path: "/v1/x", Model: "broken \xff utf-8", Metadata: map[string]string{"z": "1", "a": "=2", "quote\"": "<b>&\n", "": "\xff"}}, Origin: reqlog.Origin{OptionIndex: "config.targets[1]", TargetName: "cheap"}},
		{Result: reqlog.Result{Status: 200}, Level: reqlog.LevelFull, Bodies: &reqlog.Bodies{
			Request:  reqlog.Body{Type: "application/json", Data: []byte(`{"messages":[{"content":"<b>=\"x\",\n"}]}`), Size: 40},
			Response: reqlog.Body{Type: "text/event-stream", Data: []byte("data: {}\r\n\r\ndata: é"), Size: 4096, Cut: true},
		}},
		{Result: reqlog.Result{Status: 200}, Level: reqlog.LevelFull, Bodies: &reqlog.Bodies{Request: reqlog.Body{Type: "audio/wav", Size: 99, Cut: true}}},
		{Result: reqlog.Result{Status: 200}, Level: reqlog.LevelNone, Durations: reqlog.Durations{Total: time.Hour}},
	}
}

// rowsOf reads a file of a format with a reader that is not ours: the fields of
// each row as text, "null" for null.
var rowsOf = map[string]func(t *testing.T, file string) []map[string]string{
	"jsonl": func(t *testing.T, file string) (rows []map[string]string) {
		for line := range strings.Lines(file) {
			var raw map[string]json.RawMessage
			if err := json.Unmarshal([]byte(line), &raw); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			row := make(map[string]string)
			for name, v := range raw {
				row[name] = plain(v)
			}
			rows = append(rows, row)
		}
		return rows
	},
	"csv": func(t *testing.T, file string) (rows []map[string]string) {
		all, err := csv.NewReader(strings.NewReader(file)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, cells := range all[1:] {
			row := make(map[string]string)
			for i, name := range all[0] {
				if row[name] = cells[i]; cells[i] == "" {
					row[name] = "null"
				}
			}
			rows = append(rows, row)
		}
		return rows
	},
	"parquet": func(t *testing.T, file string) (rows []map[string]string) {
		f, err := reader.OpenFile(strings.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		names := f.Schema().Columns()
		for _, g := range f.RowGroups() {
			in := g.Rows()
			defer in.Close()
			buf := make([]reader.Row, 4)
			for {
				n, err := in.ReadRows(buf)
				for _, r := range buf[:n] {
					row := make(map[string]string)
					for i, v := range r {
						row[names[i][0]] = cell(names[i][0], v)
					}
					rows = append(rows, row)
				}
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		return rows
	},
}

// plain is a value of JSON as text: without its quotes if it is one.
func plain(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil && !bytes.Equal(v, []byte("null")) {
		return s
	}
	var small bytes.Buffer
	json.Compact(&small, v)
	return small.String()
}

// cell is a value of Parquet as text.
func cell(name string, v reader.Value) string {
	switch {
	case v.IsNull():
		return "null"
	case name == "created_at":
		return time.UnixMilli(v.Int64()).UTC().Format("2006-01-02T15:04:05.000Z")
	case name == "cost":
		text := new(big.Rat).SetFrac64(v.Int64(), 10_000_000).FloatString(7)
		return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	case v.Kind() == reader.ByteArray:
		return string(v.ByteArray())
	case v.Kind() == reader.Double:
		return json.Number(fmt.Sprint(v.Double())).String()
	}
	return v.String()
}

// inLog is an entry as the log shows it, by the fields of exports.
func inLog(t *testing.T, e *reqlog.Entry) map[string]string {
	t.Helper()
	var shown map[string]json.RawMessage
	if err := json.Unmarshal(e.AppendJSONWithBodies(nil), &shown); err != nil {
		t.Fatal(err)
	}
	within := func(name, field string) json.RawMessage {
		var inner map[string]json.RawMessage
		if json.Unmarshal(shown[name], &inner); inner == nil {
			return json.RawMessage("null")
		}
		return inner[field]
	}
	row := map[string]string{"is_success": fmt.Sprint(string(shown["outcome"]) == `"success"`), "cost_currency": "null", "mode": "single"}
	if e.Priced {
		row["cost_currency"] = "USD"
	}
	if strings.Contains(e.OptionIndex, "targets") {
		row["mode"] = "null"
	}
	for name, v := range map[string]json.RawMessage{
		"id": shown["id"], "trace_id": shown["trace_id"], "created_at": shown["created_at"], "request": shown["request"], "response": shown["response"],
		"ai_org": shown["provider"], "ai_model": shown["model"], "req_units": within("usage", "prompt_tokens"), "res_units": within("usage", "completion_tokens"),
		"total_units": within("usage", "total_tokens"), "request_url": shown["path"], "cost": shown["cost"], "response_time": within("timing", "total_ms"),
		"response_status_code": shown["status"], "config": shown["config"], "prompt_slug": within("prompt", "slug"), "metadata": shown["metadata"],
		"outcome": shown["outcome"], "provider_slug": shown["provider_slug"], "upstream_model": shown["upstream_model"], "response_model": shown["response_model"],
		"target": shown["option_index"], "target_name": shown["target_name"], "error_code": within("error", "code"), "cost_nano_usd": shown["cost_nano_usd"],
		"first_token_ms": within("timing", "first_token_ms"), "config_version": shown["config_version"], "prompt_version": within("prompt", "version"),
		"api_key_id": within("api_key", "id"), "operation": shown["operation"], "workspace_id": shown["workspace"],
	} {
		row[name] = plain(v)
	}
	return row
}

// numbers are spelled as they like by readers.
var numbers = map[string]bool{"response_time": true, "first_token_ms": true}

func wantSame(t *testing.T, format string, want, got map[string]string) {
	t.Helper()
	for _, name := range exports.Fields() {
		a, b := want[name], got[name]
		switch {
		case numbers[name] && a != "null":
			x, okX := new(big.Rat).SetString(a)
			y, okY := new(big.Rat).SetString(b)
			if !okX || !okY || x.Cmp(y) != 0 {
				t.Errorf("%s: %s is %s, want %s", format, name, b, a)
			}
			continue
		case format == "csv" && strings.HasPrefix(b, "'"):
			b = b[1:]
		}
		if strings.HasPrefix(a, "{") {
			var x, y any
			if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil || !cmp.Equal(x, y) {
				t.Errorf("%s: %s is %s, want %s", format, name, b, a)
			}
			continue
		}
		if a != b {
			t.Errorf("%s: %s is %q, want %q", format, name, b, a)
		}
	}
}

func TestFilesSayWhatTheLogSays(t *testing.T) {
	d := newDesk(t)
	d.record(oddEntries()...)
	page, err := d.logs.List(t.Context(), logstore.Query{From: d.Clock.AddDate(0, 0, -1), To: d.Clock.AddDate(0, 0, 1)})
	if err == nil {
		err = d.logs.ReadBodies(t.Context(), page.Entries)
	}
	if err != nil || len(page.Entries) != len(oddEntries()) {
		t.Fatalf("%d entries, %v", len(page.Entries), err)
	}
	for format, read := range rowsOf {
		rows := read(t, d.download(d.root, createDraft(d.root, format, "")))
		if len(rows) != len(page.Entries) {
			t.Fatalf("%s: %d rows, want %d", format, len(rows), len(page.Entries))
		}
		for i, e := range page.Entries {
			wantSame(t, format, inLog(t, e), rows[i])
		}
	}
}

func TestFieldsHaveOneOrder(t *testing.T) {
	d := newDesk(t)
	d.record(&reqlog.Entry{Result: reqlog.Result{Status: 200}, Charge: reqlog.Charge{Priced: true, Cost: catalog.NanoDollars(15_000_000)}})
	var out struct{ ID string }
	d.root.Must("POST", "/logs/exports", `{"requested_data":["metadata","cost","response_status_code","trace_id"],"filters":{`+lastDay+`}}`, &out)
	if got, want := d.download(d.root, out.ID), `{"trace_id":null,"cost":1.5,"response_status_code":200,"metadata":{}}`+"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSpreadsheetsAreGivenNoFormulas(t *testing.T) {
	d := newDesk(t)
	var entries []*reqlog.Entry
	for _, s := range []string{"=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"} {
		entries = append(entries, &reqlog.Entry{Trace: reqlog.Trace{TraceID: s}, Input: reqlog.Input{Model: s, Path: s, Config: s, Prompt: reqlog.Prompt{ID: "p", Slug: s}, Metadata: map[string]string{s: s}}, Origin: reqlog.Origin{Provider: s}})
	}
	d.record(entries...)
	all, err := csv.NewReader(strings.NewReader(d.download(d.root, createDraft(d.root, "csv", "")))).ReadAll()
	if err != nil || len(all) != 1+len(entries) {
		t.Fatalf("%d lines, %v", len(all), err)
	}
	for _, cells := range all[1:] {
		for i, c := range cells {
			if strings.ContainsAny(c[:min(1, len(c))], "=+-@\t\r") {
				t.Errorf("%s begins as a formula: %q", all[0][i], c)
			}
		}
	}
}

func TestAnExportOfNothingIsAFile(t *testing.T) {
	d := newDesk(t)
	for format, read := range rowsOf {
		if rows := read(t, d.download(d.root, createDraft(d.root, format, ""))); len(rows) != 0 {
			t.Errorf("%s: %v", format, rows)
		}
	}
}
