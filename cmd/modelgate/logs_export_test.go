package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// exporting is a gateway that makes exports: the states that one has when it is
// asked for, one after the other.
func exporting(t *testing.T, states ...string) (url string, asked *[]string) {
	t.Helper()
	return exportingRows(t, 2, states...)
}

// exportingRows is [exporting] of a number of rows.
func exportingRows(t *testing.T, rows int, states ...string) (url string, asked *[]string) {
	t.Helper()
	asked = new([]string)
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/logs/exports/e/download", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"signed_url":"http://%s/file"}`, r.Host)
	})
	mux.HandleFunc("/v1/logs/exports/e", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"status":%q,"rows":%d,"error":"the reason"}`, states[0], rows)
		states = states[1:]
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("x-gateway-api-key") != "" {
			w.WriteHeader(http.StatusBadRequest)
		}
		io.WriteString(w, "id\r\n1\r\n2\r\n")
	})
	mux.HandleFunc("/v1/logs/exports/field-restrictions", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"denied_fields":["cost","metadata"]}`)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*asked = append(*asked, r.URL.Path+" "+string(body))
		io.WriteString(w, `{"id":"e"}`)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL, asked
}

func TestAPartOfTheLogIsWrittenToAFile(t *testing.T) {
	address, asked := exporting(t, "in_progress", "success")
	file := filepath.Join(t.TempDir(), "log.csv")
	code, out, errs := invoke(t, nil, "", "logs", "export", "--url", address, "--key", "k", "--out", file, "--fields", "id,cost", "--workspace", "w",
		"--from", "2026-11-01T00:00:00Z", "--to", "2026-11-02T00:00:00Z", "--filters", `{"status_code":[429]}`)
	if text, err := os.ReadFile(file); code != 0 || err != nil || string(text) != "id\r\n1\r\n2\r\n" || out != "2 rows, 10 bytes in "+file+"\n" {
		t.Errorf("exit code %d, %q %q; file %q, %v", code, out, errs, text, err)
	}
	if errs != "the organisation excludes these fields from exports, so the file does not have them: cost\n" {
		t.Errorf("standard error has %q", errs)
	}
	want := `/v1/logs/exports {"filters":{"status_code":[429],"time_of_generation_max":"2026-11-02T00:00:00Z","time_of_generation_min":"2026-11-01T00:00:00Z"},"format":"csv","requested_data":["id","cost"],"workspace_id":"w"}`
	if len(*asked) != 2 || (*asked)[0] != want || (*asked)[1] != "/v1/logs/exports/e/start " {
		t.Errorf("asked %q, want first %s", *asked, want)
	}
}

func TestAnExportThatFailsLeavesNoFile(t *testing.T) {
	address, _ := exporting(t, "failed")
	file := filepath.Join(t.TempDir(), "log.jsonl")
	code, _, errs := invoke(t, nil, "", "logs", "export", "--url", address, "--out", file)
	if left, err := os.ReadDir(filepath.Dir(file)); code != 1 || !strings.Contains(errs, "the export is failed: the reason") || err != nil || len(left) > 0 {
		t.Errorf("exit code %d, %q; left %v, %v", code, errs, left, err)
	}
	for _, args := range [][]string{{}, {"--out", file, "--from", "yesterday"}, {"--out", file, "--filters", "[]"}, {"--out", file, "more"}} {
		if code, _, _ := invoke(t, nil, "", append([]string{"logs", "export"}, args...)...); code != 2 {
			t.Errorf("%v: exit code %d, want 2", args, code)
		}
	}
}

func TestAnExportThatIsCutSaysSo(t *testing.T) {
	address, _ := exportingRows(t, 50_000, "success")
	code, _, errs := invoke(t, nil, "", "logs", "export", "--url", address, "--key", "k", "--out", filepath.Join(t.TempDir(), "log.csv"), "--fields", "id")
	if code != 0 || errs != "the file has the newest 50000 entries of the range; export older ones with an earlier --to\n" {
		t.Errorf("exit code %d, standard error %q", code, errs)
	}
}
