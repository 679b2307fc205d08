package batches_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

const masterKey = "batches-master-key-0123456789abcdef"

// start starts a gateway that has OpenAI's and Anthropic's batches, both of the simulator,
// as @openai and @claude.
func start(t *testing.T, o gatewaytest.Options) *client {
	t.Helper()
	t.Setenv("SIM_KEY", gatewaytest.SimulatorKey)
	o.MasterKey = masterKey
	o.Settings = `version: 1
providers:
  - {slug: openai, provider: openai, custom_host: "SIMULATOR", api_key: "${SIM_KEY}"}
  - {slug: gemini, provider: google, custom_host: "SIMULATOR_ROOT", api_key: "${SIM_KEY}"}
  - {slug: claude, provider: anthropic, custom_host: "SIMULATOR", api_key: "${SIM_KEY}"}
` + o.Settings
	return &client{gatewaytest.New(t, o), t, gatewaytest.Key}
}

// client sends requests with a gateway key, and names no provider.
type client struct {
	*gatewaytest.Gateway
	t   *testing.T
	key string
}

func (c *client) do(method, path, body string, h ...string) gatewaytest.Response {
	c.t.Helper()
	return c.Do(c.Request(method, path, body, append([]string{"x-gateway-provider", "", "x-gateway-api-key", c.key}, h...)...))
}

// ok returns the object of a response that must be a success.
func (c *client) ok(method, path, body string, h ...string) map[string]any {
	c.t.Helper()
	res := c.do(method, path, body, h...)
	if res.Status != http.StatusOK {
		c.t.Fatalf("%s %s: status %d: %s", method, path, res.Status, res.Body)
	}
	return res.JSON(c.t)
}

// upload uploads a file and returns its id.
func (c *client) upload(content, purpose string, h ...string) string {
	c.t.Helper()
	var buf bytes.Buffer
	form := multipart.NewWriter(&buf)
	form.WriteField("purpose", purpose)
	part, _ := form.CreateFormFile("file", "lines.jsonl") // writes to memory
	part.Write([]byte(content))
	form.Close()
	res := c.do("POST", "/files", buf.String(), append([]string{"Content-Type", form.FormDataContentType()}, h...)...)
	if res.Status != http.StatusOK {
		c.t.Fatalf("upload: status %d: %s", res.Status, res.Body)
	}
	return res.JSON(c.t)["id"].(string)
}

// create creates a batch and returns it.
func (c *client) create(file, more string, h ...string) map[string]any {
	c.t.Helper()
	body := fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/chat/completions"%s}`, file, more)
	return c.ok("POST", "/batches", body, h...)
}

const now = `,"completion_window":"immediate"`

// await returns a batch once it has ended.
func (c *client) await(id string) (b map[string]any) {
	c.t.Helper()
	waittest.Until(c.t, "the end of the batch", func() bool {
		b = c.ok("GET", "/batches/"+id, "")
		switch b["status"] {
		case "completed", "failed", "expired", "cancelled":
			return true
		}
		return false
	})
	return b
}

// row is a line of a file of results.
type row struct {
	ID       string `json:"id"`
	CustomID string `json:"custom_id"`
	Response *struct {
		StatusCode int             `json:"status_code"`
		RequestID  string          `json:"request_id"`
		Body       json.RawMessage `json:"body"`
	} `json:"response"`
	Error *struct{ Code, Message string } `json:"error"`
}

// rows returns the lines of a file of results, nil for a file that there is not.
func (c *client) rows(id any) (list []row) {
	c.t.Helper()
	if id == nil || id == "" {
		return nil
	}
	res := c.do("GET", "/files/"+id.(string)+"/content", "")
	if res.Status != http.StatusOK {
		c.t.Fatalf("content of %v: status %d: %s", id, res.Status, res.Body)
	}
	for text := range bytes.Lines(res.Body) {
		var r row
		if err := json.Unmarshal(text, &r); err != nil {
			c.t.Fatalf("a line of results: %v: %.200s", err, text)
		}
		list = append(list, r)
	}
	return list
}

// lines returns n lines whose model is one of the given in turn.
func lines(n int, models ...string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"custom_id":"c%d","method":"POST","url":"/v1/chat/completions","body":{"model":%q,"messages":[{"role":"user","content":"say %d"}]}}`+"\n", i, models[i%len(models)], i)
	}
	return b.String()
}

// once checks that results have each of n lines once.
func once(t *testing.T, n int, results ...[]row) {
	t.Helper()
	seen := make(map[string]int)
	for _, list := range results {
		for _, r := range list {
			seen[r.CustomID]++
		}
	}
	for i := range n {
		if k := seen[fmt.Sprint("c", i)]; k != 1 {
			t.Errorf("line c%d has %d results", i, k)
		}
	}
	if len(seen) != n {
		t.Errorf("results of %d lines, want %d", len(seen), n)
	}
}
