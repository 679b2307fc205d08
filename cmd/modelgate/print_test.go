package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Names, models and messages are the text of clients, tenants and providers.
func TestNobodysTextControlsTheTerminal(t *testing.T) {
	const text = "a\x1b[2J\u009b2J\u202eb\nrevoked x"
	data := t.TempDir()
	if code, _, errs := invoke(t, nil, "", "keys", "create", "--data", data, "--name", text); code != 0 {
		t.Fatalf("keys create: %d %s", code, errs)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const escaped = `a\u001b[2J\u009b2J\u202eb\nrevoked x`
		if r.Method == http.MethodPost {
			w.WriteHeader(400)
			io.WriteString(w, `{"message":"`+strings.ReplaceAll(escaped, `\n`, " ")+`"}`)
			return
		}
		io.WriteString(w, `{"status":502,"option_index":"`+escaped+`","decisions":[{"path":"config","text":"`+escaped+`"}],"attempts":[{"target":"t","provider":"p","error":"`+escaped+`"}]}`)
	}))
	t.Cleanup(s.Close)
	listen := strings.TrimPrefix(s.URL, "http://")
	file := filepath.Join(data, "question.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"keys", "list", "--data", data},
		{"explain", "--listen", listen, "01a218ea-0e12-7569-a664-4234e517dd38"},
		{"explain", "--listen", listen, file},
	} {
		_, out, errs := invoke(t, nil, "", args...)
		if got := out + errs; strings.ContainsAny(got, "\x1b\u009b\u202e") || strings.Contains(got, "\nrevoked") || !strings.Contains(got, "a\uFFFD[2J\uFFFD2J\uFFFDb") {
			t.Errorf("%s prints %q", args[0], got)
		}
	}
}

func TestNumbersAgreeWithTheirNouns(t *testing.T) {
	for want, got := range map[string]string{
		"1 file": counted(1, "file"), "0 files": counted(0, "file"), "2 entries": counted(int64(2), "entry"), "1 entry": counted(1, "entry"), "3 days": counted(3, "day"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 40 {
		t.Fatal(files, err)
	}
	// Numbers that are never one.
	limits := []string{"to %d addresses", "newest %d entries", "about %d tokens", "for %d minutes"}
	number := regexp.MustCompile(`\w+ %d [a-z]+s\b|"%d [a-z]+s\b`)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range number.FindAllString(string(text), -1) {
			if !slices.Contains(limits, m) {
				t.Errorf("%s: %q is wrong for one; use counted", file, m)
			}
		}
	}
}
