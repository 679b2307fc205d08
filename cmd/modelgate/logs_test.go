package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
)

func TestLogsPruneRemovesWhatIsTooOld(t *testing.T) {
	data := t.TempDir()
	s, err := logstore.Open(t.Context(), logstore.Options{Path: filepath.Join(data, "logs.db")})
	if err != nil {
		t.Fatal(err)
	}
	for day := range 10 {
		at := time.Now().AddDate(0, 0, -day)
		bodies := &reqlog.Bodies{Request: reqlog.Body{Data: []byte("question")}, Response: reqlog.Body{Data: []byte("answer")}}
		s.Record(t.Context(), &reqlog.Entry{ID: reqlog.NewID(at), Time: at, Level: reqlog.LevelFull, Bodies: bodies})
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--days", "3", "--dry-run"}, 0, "would remove 7 entries"},
		{[]string{"--days", "3"}, 0, "removed 7 entries"},
		{[]string{"--days", "3"}, 0, "removed 0 entries"},
		{[]string{"--bytes", "64MB"}, 0, "removed 0 entries"},
		{[]string{"--bodies-days", "1", "--dry-run"}, 0, "would remove the bodies of 2 entries"},
		{[]string{"--bodies-days", "1"}, 0, "removed the bodies of 2 entries"},
		{[]string{"--bodies-days", "1"}, 0, "removed the bodies of 0 entries"},
		{[]string{"--bodies-days", "36501"}, 2, "days"},
		{[]string{"--sums-days", "3", "--dry-run"}, 0, "would remove 6 rollups"},
		{[]string{"--sums-days", "3"}, 0, "removed 6 rollups"},
		{[]string{"--sums-days", "3"}, 0, "removed 0 rollups"},
		{[]string{"--sums-days", "-1"}, 2, "days"},
		{nil, 2, "--days"},
		{[]string{"--days", "-1"}, 2, "days"},
		{[]string{"--bytes", "many"}, 2, "a size"},
		{[]string{"--bytes", "1KB"}, 2, "64 MB"},
		{[]string{"--days", "3", "--logs-database-url", "mysql://h"}, 1, "postgres://"},
		{[]string{"--days", "3", "--data", t.TempDir()}, 1, "logs.db not found"},
	} {
		code, out, errText := invoke(t, nil, "", append([]string{"logs", "prune", "--data", data}, tt.args...)...)
		if code != tt.code || !strings.Contains(out+errText, tt.want) {
			t.Errorf("logs prune %q = %d, %q, %q; want %d and %q", tt.args, code, out, errText, tt.code, tt.want)
		}
	}
}
