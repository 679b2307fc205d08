package tokens

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	recordings = "../../../../shared/recordings"
	page       = "../../../docs/prices.md"
)

// recorded is a request with the input tokens that its provider counted.
type recorded struct {
	model string
	body  []byte
	input float64
}

// mustRecorded returns the recorded requests whose input is text only, so that an
// estimate of it can be compared.
func mustRecorded(t *testing.T) (list []recorded) {
	t.Helper()
	if _, err := os.Stat(recordings); err != nil {
		t.Skipf("no recordings in %s", recordings)
	}
	files, err := filepath.Glob(filepath.Join(recordings, "*", "*", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var whole struct {
			Exchanges []struct {
				Request  struct{ Body json.RawMessage }
				Response struct {
					Status int
					Body   string
				}
			}
		}
		if json.Unmarshal(b, &whole) != nil {
			continue // index.json and the like
		}
		for _, e := range whole.Exchanges {
			if r, ok := readRecorded(e.Request.Body, e.Response.Body); ok && e.Response.Status == 200 {
				list = append(list, r)
			}
		}
	}
	return list
}

// hidden are the marks of requests whose input is more than their text: media, tools
// of the provider, and stored conversations.
var hidden = []string{"base64", "image", "file", "inline", "http", "audio", "search", "code_", "mcp", "computer", "previous_response_id", "cachedContent", "embedding"}

func readRecorded(body []byte, response string) (r recorded, ok bool) {
	for _, mark := range hidden {
		if bytes.Contains(body, []byte(mark)) {
			return r, false
		}
	}
	var request struct{ Model string }
	var content struct {
		ModelVersion string
		Usage        struct {
			Prompt     float64 `json:"prompt_tokens"`
			Input      float64 `json:"input_tokens"`
			CacheRead  float64 `json:"cache_read_input_tokens"`
			CacheWrite float64 `json:"cache_creation_input_tokens"`
		}
		UsageMetadata struct{ PromptTokenCount float64 }
	}
	if json.Unmarshal(body, &request) != nil || json.Unmarshal([]byte(response), &content) != nil {
		return r, false
	}
	u := content.Usage
	r = recorded{request.Model, body, u.Prompt}
	if r.model == "" {
		r.model = content.ModelVersion
	}
	if r.input == 0 {
		r.input = u.Input + u.CacheRead + u.CacheWrite + content.UsageMetadata.PromptTokenCount
	}
	return r, r.model != "" && r.input >= 8
}

// The page says how far estimates are from what providers counted. The table is
// compared with the recordings; with UPDATE=1 it is written.
func TestErrorsOfEstimatesAreThoseOfThePage(t *testing.T) {
	errors := make(map[string][]float64)
	for _, r := range mustRecorded(t) {
		name := familyOf("", r.model).name
		estimate := float64(EstimateRequest("", r.model, r.body))
		errors[name] = append(errors[name], (estimate-r.input)/r.input*100)
	}
	var b strings.Builder
	b.WriteString("| models | recorded requests | median error | four of five are within |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(errors)) {
		list := errors[name]
		slices.Sort(list)
		at := func(share float64) float64 { return list[int(share*float64(len(list)-1))] }
		fmt.Fprintf(&b, "| %s | %d | %+.0f %% | %+.0f to %+.0f %% |\n", name, len(list), at(0.5), at(0.1), at(0.9))
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "<!-- estimates -->\n")
	_, after, ends := strings.Cut(rest, "<!-- end -->\n")
	if !ok || !ends {
		t.Fatalf("%s has no marks for the table", page)
	}
	want := before + "<!-- estimates -->\n" + b.String() + "<!-- end -->\n" + after
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("%s has other errors than the recordings show; run this test with UPDATE=1:\n%s", page, b.String())
	}
}
