package copies_test

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
	"modelgate/internal/testing/waittest"
)

// start starts a gateway with providers of the simulator.
func start(t *testing.T, settings string) *gatewaytest.Gateway {
	t.Helper()
	t.Setenv("SIM_KEY", gatewaytest.SimulatorKey)
	return gatewaytest.New(t, gatewaytest.Options{MasterKey: "copies-master-key-0123456789abcdef", Data: t.TempDir(),
		Simulator: recorder.Options{Record: 1000}, Settings: `version: 1
providers:
  - {slug: openai, provider: openai, custom_host: "SIMULATOR", api_key: "${SIM_KEY}"}
  - {slug: second, provider: openai, custom_host: "SIMULATOR", api_key: "${SIM_KEY}"}
  - {slug: claude, provider: anthropic, custom_host: "SIMULATOR", api_key: "${SIM_KEY}"}
  - {slug: gem, provider: google, custom_host: "SIMULATOR", api_key: "${SIM_KEY}"}
  - {slug: coh, provider: cohere, custom_host: "SIMULATOR", api_key: "${SIM_KEY}"}
` + settings})
}

// upload uploads a file and returns its id.
func upload(t *testing.T, g *gatewaytest.Gateway, purpose, content, provider string) string {
	t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	w.WriteField("purpose", purpose)
	part, _ := w.CreateFormFile("file", "notes.txt") // to memory
	part.Write([]byte(content))
	w.Close()
	res := g.Post("/files", form.String(), "x-gateway-provider", provider, "Content-Type", w.FormDataContentType())
	if res.Status != 200 {
		t.Fatalf("upload: %d %s", res.Status, res.Body)
	}
	return res.JSON(t)["id"].(string)
}

// chat sends a message with a file.
func chat(g *gatewaytest.Gateway, provider, id string, h ...string) gatewaytest.Response {
	body := fmt.Sprintf(`{"model":"sim","messages":[{"role":"user","content":[{"type":"text","text":"what is it?"},{"type":"file","file":{"file_id":%q}}]}]}`, id)
	return g.Post("/chat/completions", body, append([]string{"x-gateway-provider", provider}, h...)...)
}

// sent returns the requests of the simulator with a method and a part of their path.
func sent(g *gatewaytest.Gateway, method, path string) (list []string) {
	for _, r := range g.Sim.Requests() {
		if r.Method == method && strings.Contains(r.URI, path) {
			list = append(list, string(r.Body))
		}
	}
	return list
}

func TestAFileIsCopiedOnceAndDeletedWithItsCopies(t *testing.T) {
	for _, tt := range []struct{ from, to, upload, gone string }{
		{"", "@openai", "/files", "/files/"},
		{"", "@claude", "/files", "/files/"},
		{"", "@gem", "/upload/v1beta/files", "/files/"},
		{"@openai", "@second", "/files", "/files/"},
		{"@openai", "@claude", "/files", "/files/"},
	} {
		t.Run(tt.from+" to "+tt.to, func(t *testing.T) {
			g := start(t, "")
			id := upload(t, g, "user_data", "the content", tt.from)
			before := len(sent(g, "POST", tt.upload))
			for i := range 2 {
				if res := chat(g, tt.to, id); res.Status != 200 {
					t.Fatalf("request %d: %d %s", i, res.Status, res.Body)
				}
			}
			uploads := sent(g, "POST", tt.upload)[before:]
			if len(uploads) != 1 || !strings.Contains(uploads[0], "the content") {
				t.Fatalf("the file was copied %d times: %.300q", len(uploads), uploads)
			}
			last := g.Sim.Requests()
			if body := string(last[len(last)-1].Body); strings.Contains(body, id) {
				t.Errorf("the request has the id %s: %s", id, body)
			}
			if list := g.Get("/files", "x-gateway-provider", "").JSON(t)["data"].([]any); len(list) != 1 {
				t.Errorf("the workspace lists %v", list)
			}
			if res := g.Do(g.Request(http.MethodDelete, "/files/"+id, "", "x-gateway-provider", "")); res.Status != 200 {
				t.Fatalf("deleting: %d %s", res.Status, res.Body)
			}
			want := 1
			if tt.from != "" {
				want = 2
			}
			waittest.Until(t, "the copy is deleted at its provider", func() bool { return len(sent(g, "DELETE", tt.gone)) == want })
		})
	}
}

// TestFilesInBodiesAreThoseOfTheWorkspace refers to files in every place that a body has.
func TestFilesInBodiesAreThoseOfTheWorkspace(t *testing.T) {
	g := start(t, "")
	asks := map[string]struct{ path, body string }{
		"chat":            {"/chat/completions", `{"model":"@openai/sim","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"ID"}}]}]}`},
		"escaped":         {"/chat/completions", `{"model":"@openai/sim","messages":[{"role":"user","content":[{"type":"file","file":{"\u0066ile\u005fid":"ID"}}]}]}`},
		"responses":       {"/responses", `{"model":"@openai/sim","input":[{"role":"user","content":[{"type":"input_file","file_id":"ID"}]}]}`},
		"tool output":     {"/responses", `{"model":"@openai/sim","input":[{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","file_id":"ID"}]}]}`},
		"container":       {"/responses", `{"model":"@openai/sim","input":"hi","tools":[{"type":"code_interpreter","container":{"type":"auto","file_ids":["ID"]}}]}`},
		"messages":        {"/messages", `{"model":"@claude/sim","max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"ID"}}]}]}`},
		"two types":       {"/messages", `{"model":"@claude/sim","max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file_path","type":"file","file_id":"ID"}}]}]}`},
		"passing through": {"/vector_stores", `{"file_ids":["ID"]}`},
	}
	for name, ask := range asks {
		before := len(g.Sim.Requests())
		h := []string{"x-gateway-provider", ""}
		if name == "passing through" {
			h[1] = "@openai"
		}
		res := g.Post(ask.path, strings.ReplaceAll(ask.body, "ID", "file-unknown"), append(h, "anthropic-version", "2023-06-01", "Content-Type", "application/json")...)
		if res.Status != 404 || !strings.Contains(string(res.Body), "this workspace has no file") {
			t.Errorf("%s: %d %s", name, res.Status, res.Body)
		}
		if len(g.Sim.Requests()) != before {
			t.Errorf("%s: the provider was asked", name)
		}
	}
	for name, body := range map[string]string{
		"arguments of a tool": `{"model":"@claude/sim","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"f","input":{"file_id":"mine"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"x"}]}],"tools":[{"name":"f","input_schema":{"type":"object","properties":{"file_id":{"type":"string"}}}}]}`,
	} {
		if res := g.Post("/messages", body, "x-gateway-provider", "", "anthropic-version", "2023-06-01"); res.Status != 200 {
			t.Errorf("%s: %d %s", name, res.Status, res.Body)
		}
	}
	g = start(t, "files: {unrecorded: pass}\n")
	if res := chat(g, "@openai", "file-unknown"); strings.Contains(string(res.Body), "this workspace has no file") {
		t.Errorf("with unrecorded ids: %d %s", res.Status, res.Body)
	}
}

func TestFilesOfGeminiAreThoseOfTheWorkspace(t *testing.T) {
	g := start(t, "")
	ask := func(uri string) gatewaytest.Response {
		r := g.Request("POST", "/x", fmt.Sprintf(`{"contents":[{"role":"user","parts":[{"fileData":{"mimeType":"text/plain","fileUri":%q}}]}]}`, uri),
			"x-gateway-provider", "@gem")
		r.URL.Path = "/v1beta/models/sim:generateContent"
		return g.Do(r)
	}
	for _, uri := range []string{
		"https://generativelanguage.googleapis.com/v1beta/files/none", "https://GenerativeLanguage.googleapis.com/v1beta/files/none",
		g.Upstream + "/v1beta/files/none", "files/none", "gw_file_none", "https://generativelanguage.googleapis.com/v1beta/%66iles/none",
	} {
		if res := ask(uri); res.Status != 404 || !strings.Contains(string(res.Body), "NOT_FOUND") {
			t.Errorf("%s: %d %s", uri, res.Status, res.Body)
		}
	}
	for _, uri := range []string{"https://www.youtube.com/watch?v=x", "gs://bucket/files/none"} {
		if res := ask(uri); res.Status == 404 {
			t.Errorf("%s: %d %s", uri, res.Status, res.Body)
		}
	}
	id := upload(t, g, "user_data", "text", "")
	if res := ask(id); res.Status != 200 {
		t.Errorf("a file of the gateway: %d %s", res.Status, res.Body)
	}
	last := g.Sim.Requests()
	if body := string(last[len(last)-1].Body); !strings.Contains(body, `"fileUri":"https://`) || strings.Contains(body, id) {
		t.Errorf("sent %s", body)
	}
}

func TestFilesThatCannotBeCopiedNameBothProviders(t *testing.T) {
	g := start(t, "files: {copy_limit: 1 MB}\n")
	large := upload(t, g, "user_data", strings.Repeat("x", 1<<20+1), "")
	here := upload(t, g, "user_data", "x", "")
	for _, tt := range []struct{ name, id, to, from string }{
		{"too large", large, "@openai", "the gateway"},
		{"no files there", here, "@coh", "the gateway"},
	} {
		res := chat(g, tt.to, tt.id)
		if text := string(res.Body); res.Status != 400 || !strings.Contains(text, tt.to) || !strings.Contains(text, tt.from) || !strings.Contains(text, "file_of_another_provider") {
			t.Errorf("%s: %d %s", tt.name, res.Status, res.Body)
		}
	}
}

// TestRequestsAtTheSameTimeShareACopy sends requests for a file that is not copied yet, with
// a limit of requests in progress that is as large as their number.
func TestRequestsAtTheSameTimeShareACopy(t *testing.T) {
	g := start(t, "limits: {concurrency: {requests: 4, key: 4, queue: -1}}\n")
	id := upload(t, g, "user_data", "shared", "")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if res := chat(g, "@openai", id); res.Status != 200 {
				t.Errorf("%d %s", res.Status, res.Body)
			}
		})
	}
	all.Wait()
	if uploads := sent(g, "POST", "/files"); len(uploads) != 1 {
		t.Errorf("the file was copied %d times", len(uploads))
	}
}

func TestBatchesRunElsewhereThanTheirFile(t *testing.T) {
	line := `{"custom_id":"one","method":"POST","url":"/v1/chat/completions","body":{"model":"@openai/sim","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}}`
	g := start(t, "")
	id := upload(t, g, "batch", line, "@openai")
	for range 2 {
		body := fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/chat/completions","completion_window":"immediate"}`, id)
		made := g.Post("/batches", body, "x-gateway-provider", "").JSON(t)
		waittest.Until(t, "the batch has ended", func() bool {
			b := g.Get("/batches/"+fmt.Sprint(made["id"]), "x-gateway-provider", "").JSON(t)
			return b["status"] == "completed" && b["input_file_id"] == id
		})
	}
	if read := sent(g, "GET", "/content"); len(read) != 1 {
		t.Errorf("the file was read %d times", len(read))
	}
	other := strings.Replace(line, "@openai/", "", 1)
	id = upload(t, g, "batch", other, "@openai")
	body := fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/chat/completions","completion_window":"24h"}`, id)
	if res := g.Post("/batches", body, "x-gateway-provider", "@claude"); res.Status != 200 || len(sent(g, "POST", "/messages/batches")) != 1 {
		t.Errorf("at another provider: %d %s", res.Status, res.Body)
	}
}
