package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// keeping starts a gateway with a managed provider of the simulator, which keeps files,
// batches and jobs, as @sim.
func keeping(t *testing.T) *gateway {
	t.Helper()
	return launchFor(t, "version: 1\nproviders:\n  - {slug: sim, provider: openai, custom_host: \""+simulate(t)+"/v1\", api_key: \"${STORED_KEY}\"}\n",
		"MODELGATE_TRUSTED_HOSTS=127.0.0.1")
}

// own are the headers of a request with the gateway key alone.
func own(more ...string) []string {
	return append([]string{"x-gateway-api-key", bootstrapKey}, more...)
}

// batchLines returns n lines, of which every third fails.
func batchLines(n int) string {
	var b strings.Builder
	for i := range n {
		model := "@sim/gpt-4o"
		if i%3 == 2 {
			model += "+status=400"
		}
		fmt.Fprintf(&b, `{"custom_id":"c%d","method":"POST","url":"/v1/chat/completions","body":{"model":%q,"messages":[{"role":"user","content":"hi"}]}}`+"\n", i, model)
	}
	return b.String()
}

// upload uploads a file and returns its id.
func (g *gateway) upload(t *testing.T, purpose, content string, header ...string) string {
	t.Helper()
	const b = "--b\r\nContent-Disposition: form-data; name="
	form := b + "\"purpose\"\r\n\r\n" + purpose + "\r\n" + b + "\"file\"; filename=\"a.jsonl\"\r\n\r\n" + content + "\r\n--b--\r\n"
	got := g.do(t, "POST", "/v1/files", form, own(append(header, "Content-Type", "multipart/form-data; boundary=b")...)...).wantOK(t)
	return got.object(t)["id"].(string)
}

// batchAfter returns a batch once it is in one of the states.
func (g *gateway) batchAfter(t *testing.T, id string, states ...string) (b map[string]any) {
	t.Helper()
	waittest.Until(t, "a batch in the state "+strings.Join(states, " or "), func() bool {
		b = g.do(t, "GET", "/v1/batches/"+id, "", own()...).wantOK(t).object(t)
		for _, s := range states {
			if b["status"] == s {
				return true
			}
		}
		return false
	})
	return b
}

// resultLines returns the lines of a file of results.
func (g *gateway) resultLines(t *testing.T, id any) (list []map[string]any) {
	t.Helper()
	got := g.do(t, "GET", "/v1/files/"+id.(string)+"/content", "", own()...).wantOK(t)
	for line := range strings.Lines(string(got.body)) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("a line of results: %v: %s", err, line)
		}
		list = append(list, v)
	}
	return list
}

// TestBatchesOfTheGateway runs batches from their creation to their end.
func TestBatchesOfTheGateway(t *testing.T) {
	g := keeping(t)
	file := g.upload(t, "batch", batchLines(6))
	create := func(t *testing.T, file, more string) response {
		t.Helper()
		return g.do(t, "POST", "/v1/batches", `{"input_file_id":"`+file+`","endpoint":"/v1/chat/completions"`+more+`}`, own()...)
	}
	prove(t, "S-010 S-153 S-154 S-155 S-156 S-157 S-158 S-159 S-163 S-164 S-351 S-352 S-353 S-354 S-355 S-356 S-161 S-162 S-231 S-236 S-477", "from creation to results", func(t *testing.T) {
		b := create(t, file, `,"completion_window":"immediate","metadata":{"team":"a"}`).wantOK(t).object(t)
		for name, want := range map[string]any{"object": "batch", "endpoint": "/v1/chat/completions", "input_file_id": file, "completion_window": "immediate", "status": "validating"} {
			if b[name] != want {
				t.Errorf("%s is %v, want %v", name, b[name], want)
			}
		}
		for _, name := range []string{"in_progress_at", "finalizing_at", "completed_at", "failed_at", "expired_at", "cancelling_at", "cancelled_at", "output_file_id"} {
			if b[name] != nil {
				t.Errorf("a new batch has %s: %v", name, b[name])
			}
		}
		b = g.batchAfter(t, b["id"].(string), "completed")
		var times []int
		for _, name := range []string{"created_at", "in_progress_at", "finalizing_at", "completed_at"} {
			n, err := strconv.Atoi(fmt.Sprint(b[name]))
			if err != nil || len(times) > 0 && n < times[len(times)-1] {
				t.Errorf("%s is %v after %v", name, b[name], times)
			}
			times = append(times, n)
		}
		if counts := fmt.Sprint(b["request_counts"]); counts != "map[completed:4 failed:2 total:6]" {
			t.Errorf("counts %s", counts)
		}
		if fmt.Sprint(b["metadata"]) != "map[team:a]" || b["failed_at"] != nil || b["cancelled_at"] != nil || b["expired_at"] != nil {
			t.Errorf("%v", b)
		}
		good, bad := g.resultLines(t, b["output_file_id"]), g.resultLines(t, b["error_file_id"])
		if len(good) != 4 || len(bad) != 2 {
			t.Fatalf("%d successes and %d failures", len(good), len(bad))
		}
		for _, r := range good {
			if r["error"] != nil || r["response"].(map[string]any)["status_code"] != 200.0 {
				t.Errorf("among the successes: %v", r)
			}
		}
		for _, r := range bad {
			if r["response"].(map[string]any)["status_code"] != 400.0 {
				t.Errorf("among the failures: %v", r)
			}
		}
	})
	prove(t, "S-160 S-476", "a line that is wrong", func(t *testing.T) {
		b := create(t, g.upload(t, "batch", batchLines(2)+"{}\n"), `,"completion_window":"immediate"`).wantOK(t).object(t)
		b = g.batchAfter(t, b["id"].(string), "failed")
		errs := b["errors"].(map[string]any)
		first := errs["data"].([]any)[0].(map[string]any)
		if errs["object"] != "list" || fmt.Sprint(first["line"]) != "3" || first["code"] == "" || first["message"] == "" || first["param"] != "custom_id" || b["failed_at"] == nil {
			t.Errorf("%v", b)
		}
	})
	prove(t, "S-232 S-233 S-235 S-360", "cancelled", func(t *testing.T) {
		slow := strings.ReplaceAll(batchLines(2), "gpt-4o", "gpt-4o+headers=1m")
		b := create(t, g.upload(t, "batch", slow), `,"completion_window":"immediate"`).wantOK(t).object(t)
		path := "/v1/batches/" + b["id"].(string) + "/cancel"
		g.batchAfter(t, b["id"].(string), "in_progress")
		b = g.do(t, "POST", path, "", own()...).wantOK(t).object(t)
		if _, err := strconv.Atoi(fmt.Sprint(b["cancelling_at"])); err != nil || b["status"] != "cancelling" {
			t.Errorf("%v", b)
		}
		if b = g.batchAfter(t, b["id"].(string), "cancelled"); b["cancelled_at"] == nil {
			t.Errorf("%v", b)
		}
		g.do(t, "POST", path, "", own()...).refused(t, http.StatusConflict)
	})
	prove(t, "S-234", "an unknown batch", func(t *testing.T) {
		g.do(t, "POST", "/v1/batches/none/cancel", "", own()...).refused(t, http.StatusNotFound)
	})
	prove(t, "S-166 S-357 S-358 S-359 S-501", "lists", func(t *testing.T) {
		all := g.do(t, "GET", "/v1/batches", "", own()...).wantOK(t).object(t)
		data := all["data"].([]any)
		first, last := data[0].(map[string]any)["id"], data[len(data)-1].(map[string]any)["id"]
		if all["object"] != "list" || all["has_more"] != false || all["first_id"] != first || all["last_id"] != last {
			t.Errorf("%v", all)
		}
		next := g.do(t, "GET", "/v1/batches?limit=1&after="+first.(string), "", own()...).wantOK(t).object(t)
		if next["first_id"] != data[1].(map[string]any)["id"] || next["has_more"] != (len(data) > 2) {
			t.Errorf("after the first: %v", next)
		}
		for limit, status := range map[string]int{"0": 400, "101": 400, "x": 400, "1": 200, "100": 200} {
			if got := g.do(t, "GET", "/v1/batches?limit="+limit, "", own()...); got.status != status {
				t.Errorf("limit %s: status %d: %s", limit, got.status, got.body)
			}
		}
	})
	for name, more := range map[string]string{
		"S-352":       `,"completion_window":"7d"`,
		"S-165 S-502": `,"completion_window":"24h","metadata":{"a":"` + strings.Repeat("v", 513) + `"}`,
	} {
		prove(t, name, "refused", func(t *testing.T) { create(t, file, more).refused(t, http.StatusBadRequest) })
	}
	prove(t, "S-353", "immediate at a provider", func(t *testing.T) {
		g.do(t, "POST", "/v1/batches", `{"input_file_id":"`+file+`","endpoint":"/v1/chat/completions","completion_window":"immediate"}`, managed("@sim")...).
			refusedFor(t, "completion_window")
	})
}

// TestFilesOfTheGateway keeps files and reads them with the gateway key alone.
func TestFilesOfTheGateway(t *testing.T) {
	g := keeping(t)
	here, there := g.upload(t, "user_data", "one"), g.upload(t, "batch", batchLines(1), "x-gateway-provider", "@sim")
	prove(t, "S-012 S-187 S-188 S-189 S-190 S-373 S-599", "a file", func(t *testing.T) {
		f := g.do(t, "GET", "/v1/files/"+here, "", own()...).wantOK(t).object(t)
		if f["object"] != "file" || fmt.Sprint(f["bytes"]) != "3" || f["filename"] != "a.jsonl" || f["purpose"] != "user_data" || f["status"] != "processed" {
			t.Errorf("%v", f)
		}
		if _, shown := f["status_details"]; !shown {
			t.Errorf("no status_details: %v", f)
		}
		g.do(t, "GET", "/v1/files/none", "", own()...).refused(t, http.StatusNotFound)
	})
	prove(t, "S-191 S-371 S-372", "lists", func(t *testing.T) {
		for query, want := range map[string]string{"": there + " " + here, "?purpose=batch": there, "?purpose=vision": ""} {
			l := g.do(t, "GET", "/v1/files"+query, "", own()...).wantOK(t).object(t)
			var ids []string
			for _, f := range l["data"].([]any) {
				ids = append(ids, f.(map[string]any)["id"].(string))
			}
			if l["object"] != "list" || strings.Join(ids, " ") != want {
				t.Errorf("%q: %v, want %s", query, l, want)
			}
		}
	})
	prove(t, "S-374", "content and deletion", func(t *testing.T) {
		for id, want := range map[string]string{here: "one", there: batchLines(1)} {
			if got := g.do(t, "GET", "/v1/files/"+id+"/content", "", own()...).wantOK(t); string(got.body) != want {
				t.Errorf("content of %s: %q", id, got.body)
			}
			g.do(t, "DELETE", "/v1/files/"+id, "", own()...).wantOK(t)
			g.do(t, "GET", "/v1/files/"+id, "", own()...).refused(t, http.StatusNotFound)
		}
	})
}

// TestFineTuningJobsAreChecked creates jobs at a managed provider.
func TestFineTuningJobsAreChecked(t *testing.T) {
	g := keeping(t)
	for name, tt := range map[string]struct{ of, body, param string }{
		"no model":         {"S-361", `{"training_file":"f"}`, "model"},
		"no training file": {"S-362", `{"model":"gpt-4o"}`, "training_file"},
		"suffix":           {"S-363", `{"model":"gpt-4o","training_file":"f","suffix":1}`, "suffix"},
		"method":           {"S-364", `{"model":"gpt-4o","training_file":"f","method":"x"}`, "method"},
		"six integrations": {"S-182 S-503", `{"model":"gpt-4o","training_file":"f","integrations":[` + strings.Repeat(`{"type":"wandb","wandb":{"project":"p"}},`, 5) + `{"type":"wandb","wandb":{"project":"p"}}]}`, "integrations"},
	} {
		prove(t, tt.of, name, func(t *testing.T) {
			g.do(t, "POST", "/v1/fine_tuning/jobs", tt.body, managed("@sim")...).refusedFor(t, tt.param)
		})
	}
	prove(t, "S-367", "an unknown job", func(t *testing.T) {
		g.do(t, "GET", "/v1/fine_tuning/jobs/none", "", own()...).refused(t, http.StatusNotFound)
	})
	prove(t, "S-011 S-167 S-168 S-172 S-173 S-174 S-177 S-179 S-180 S-237 S-238 S-361 S-365 S-366 S-367 S-368 S-369 S-370", "from creation to its end", func(t *testing.T) {
		var examples strings.Builder
		for i := range 12 {
			fmt.Fprintf(&examples, `{"messages":[{"role":"user","content":"q%d"},{"role":"assistant","content":"a"}]}`+"\n", i)
		}
		file := g.upload(t, "fine-tune", examples.String(), "x-gateway-provider", "@sim")
		j := g.do(t, "POST", "/v1/fine_tuning/jobs", `{"model":"gpt-4o-mini","training_file":"`+file+`","suffix":"own"}`, managed("@sim")...).wantOK(t).object(t)
		if j["object"] != "fine_tuning.job" || j["model"] != "gpt-4o-mini" || j["training_file"] != file || j["validation_file"] != nil || j["fine_tuned_model"] != nil || j["finished_at"] != nil {
			t.Errorf("%v", j)
		}
		path := "/v1/fine_tuning/jobs/" + j["id"].(string)
		g.do(t, "GET", path, "", own()...).wantOK(t)
		l := g.do(t, "GET", path+"/checkpoints?limit=2", "", own()...).wantOK(t).object(t)
		if l["object"] != "list" {
			t.Errorf("%v", l)
		}
		g.do(t, "GET", path+"/checkpoints?limit=x", "", own()...).refusedFor(t, "limit")
		if j = g.do(t, "POST", path+"/cancel", "", own()...).wantOK(t).object(t); j["status"] != "cancelled" {
			t.Errorf("%v", j)
		}
		if again := g.do(t, "POST", path+"/cancel", "", own()...); again.status != http.StatusBadRequest {
			t.Errorf("cancelled twice: %d %s", again.status, again.body)
		}
	})
}
