package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// TestLogsAreExportedWithoutAGateway exports the log of a data folder that no gateway uses.
func TestLogsAreExportedWithoutAGateway(t *testing.T) {
	data := t.TempDir()
	if code, _, errs := invoke(t, nil, "", "keys", "create", "--data", data, "--name", "k"); code != 0 { // creates the database
		t.Fatal(errs)
	}
	s, err := logstore.Open(t.Context(), logstore.Options{Path: filepath.Join(data, "logs.db")})
	if err != nil {
		t.Fatal(err)
	}
	for i, workspace := range []string{store.DefaultWorkspace, store.DefaultWorkspace, "gone"} {
		at := time.Now().Add(-time.Duration(i+1) * time.Hour)
		e := &reqlog.Entry{ID: reqlog.NewID(at), Time: at, Level: reqlog.LevelFull, Bodies: &reqlog.Bodies{Request: reqlog.Body{Data: []byte("question")}}}
		e.Organisation, e.Workspace, e.Status = store.DefaultOrganisation, workspace, 200+i
		s.Record(t.Context(), e)
	}
	other := &reqlog.Entry{ID: reqlog.NewID(time.Now()), Time: time.Now()}
	other.Organisation, other.Workspace = "other", "w"
	s.Record(t.Context(), other)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "all.jsonl")
	for _, tt := range []struct {
		args []string
		code int
		want string // in what is printed
		file string // in the file; "-" means that there must be none
	}{
		{nil, 0, "3 rows", `"response_status_code":202`},
		{[]string{"--since", "90m"}, 0, "1 row,", `"response_status_code":200`},
		{[]string{"--workspace", "default"}, 0, "2 rows", ""},
		{[]string{"--filters", `{"status_code":[201]}`, "--fields", "request,response_status_code"}, 0, "1 row,", "question"},
		{[]string{"--format", "csv"}, 0, "3 rows", "created_at"},
		{[]string{"--workspace", "nowhere"}, 1, "nowhere", "-"},
		{[]string{"--filters", `{"sttus":[201]}`}, 1, "sttus", "-"},
		{[]string{"--filters", `{"error_code":"tiemout"}`}, 1, "did you mean timeout?", "-"},
		{[]string{"--filters", `{"provider":"opnai"}`}, 1, "did you mean openai?", "-"},
		{[]string{"--fields", "id,costs"}, 1, "costs", "-"},
		{[]string{"--format", "xml"}, 1, "xml", "-"},
		{[]string{"--since", "soon"}, 2, "7d", "-"},
		{[]string{"--key", "mg-x"}, 2, "--offline asks no gateway", "-"},
		{[]string{"--data", t.TempDir()}, 1, "logs.db not found", "-"},
	} {
		os.Remove(out)
		args := append([]string{"logs", "export", "--offline", "--data", data, "--out", out, "--since", "1d"}, tt.args...)
		code, printed, errs := invoke(t, []string{"MODELGATE_URL=http://127.0.0.1:1", "MODELGATE_BOOTSTRAP_KEY=mg-of-a-gateway"}, "", args...)
		if code != tt.code || !strings.Contains(printed+errs, tt.want) {
			t.Errorf("%q = %d, %q, %q; want %d and %q", tt.args, code, printed, errs, tt.code, tt.want)
		}
		text, err := os.ReadFile(out)
		if (err == nil) == (tt.file == "-") || tt.file != "-" && !strings.Contains(string(text), tt.file) {
			t.Errorf("%q: the file is %q, %v", tt.args, text, err)
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(out), ".*")); len(left) != 0 {
			t.Errorf("%q leaves %v", tt.args, left)
		}
	}
}
