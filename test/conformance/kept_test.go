package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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
		status := fmt.Sprint(b["status"])
		if !slices.Contains(strings.Fields(batchStates), status) {
			t.Fatalf("the batch has the state %q, want one of %s", status, batchStates)
		}
		return slices.Contains(states, status)
	})
	return b
}

// batchStates are the states that the specification names.
const batchStates = "validating failed in_progress finalizing completed expired cancelling cancelled"

// ownID matches an id of the gateway, which is another in each run.
var ownID = regexp.MustCompile(`"(gw|resp)_\w{32,}"`)

// proveShapes runs a case for each field of an object.
func proveShapes(t *testing.T, what string, object any, shapes ...shape) {
	t.Helper()
	for _, s := range shapes {
		prove(t, s.of, fmt.Sprintf("%s: %v is %s", what, s.path, ownID.ReplaceAllString(s.want, "its id")), func(t *testing.T) {
			if got := jsonText(at(object, s.path...)); got != s.want {
				t.Errorf("%v = %s, want %s: %.600s", s.path, got, s.want, jsonText(object))
			}
		})
	}
}

// proveTimes runs a case: the fields are Unix seconds of the last minutes, none before the one
// before it.
func proveTimes(t *testing.T, of, what string, object map[string]any, fields string) {
	t.Helper()
	prove(t, of, "times of "+what, func(t *testing.T) {
		last := time.Now().Add(-10 * time.Minute).Unix()
		for name := range strings.FieldsSeq(fields) {
			n, err := strconv.ParseInt(fmt.Sprint(object[name]), 10, 64)
			if err != nil || n < last || n > time.Now().Add(time.Minute).Unix() {
				t.Errorf("%s = %v, want Unix seconds of the last minutes and not before %d", name, object[name], last)
			}
			last = n
		}
	})
}

// proveNone runs a case: the object has none of the fields, or null.
func proveNone(t *testing.T, of, what string, object map[string]any, fields string) {
	t.Helper()
	prove(t, of, "what is not set in "+what, func(t *testing.T) {
		for name := range strings.FieldsSeq(fields) {
			if object[name] != nil {
				t.Errorf("%s = %v, want none", name, object[name])
			}
		}
	})
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
	made := g.newBatch(t, file, `,"completion_window":"immediate","metadata":{"team":"a"}`)
	prove(t, "S-010 S-356 S-487", "a batch is created", func(t *testing.T) { made.wantOK(t) })
	b := made.object(t)
	id, isText := b["id"].(string)
	prove(t, "S-153", "its id is a string", func(t *testing.T) {
		if !isText || id == "" {
			t.Fatalf("id = %v", b["id"])
		}
	})
	proveShapes(t, "a new batch", b, has("S-154", `"batch"`, "object"), has("S-155", `"/v1/chat/completions"`, "endpoint"),
		has("S-156", jsonText(file), "input_file_id"), has("S-157", `"immediate"`, "completion_window"),
		has("S-158 S-231", `"validating"`, "status"), has("S-355", `{"team":"a"}`, "metadata"))
	proveTimes(t, "S-159", "a new batch", b, "created_at")
	proveNone(t, "S-163", "a new batch", b, "in_progress_at finalizing_at completed_at failed_at expired_at cancelling_at cancelled_at")
	prove(t, "S-163", "a batch expires a day after its creation", func(t *testing.T) {
		created, _ := strconv.ParseInt(fmt.Sprint(b["created_at"]), 10, 64)
		if at, err := strconv.ParseInt(fmt.Sprint(b["expires_at"]), 10, 64); err != nil || at != created+86400 {
			t.Errorf("expires_at = %v, created_at = %v", b["expires_at"], b["created_at"])
		}
	})
	prove(t, "S-158 S-231", "it completes", func(t *testing.T) { b = g.batchAfter(t, id, "completed") })
	proveTimes(t, "S-163 S-236", "a completed batch", b, "created_at in_progress_at finalizing_at completed_at")
	proveNone(t, "S-163", "a completed batch", b, "failed_at expired_at cancelling_at cancelled_at")
	proveShapes(t, "a completed batch", b, has("S-158 S-231", `"completed"`, "status"),
		has("S-164", `{"completed":4,"failed":2,"total":6}`, "request_counts"), has("S-355", `{"team":"a"}`, "metadata"))
	for of, tt := range map[string]struct {
		field  string
		status float64
		lines  int
	}{"S-161": {"output_file_id", 200, 4}, "S-162 S-477": {"error_file_id", 400, 2}} {
		prove(t, of, tt.field, func(t *testing.T) {
			lines := g.resultLines(t, fmt.Sprint(b[tt.field]))
			if len(lines) != tt.lines {
				t.Errorf("%d lines, want %d", len(lines), tt.lines)
			}
			for _, r := range lines {
				if at(r, "response", "status_code") != tt.status || (r["error"] == nil) != (tt.status == 200) || r["custom_id"] == "" {
					t.Errorf("%v", r)
				}
			}
		})
	}
}

// newBatch creates a batch of chat completions with further fields.
func (g *gateway) newBatch(t *testing.T, file, more string) response {
	t.Helper()
	return g.do(t, "POST", "/v1/batches", `{"input_file_id":"`+file+`","endpoint":"/v1/chat/completions"`+more+`}`, own()...)
}

// TestBatchesOfTheGatewayEnd fails and cancels batches.
func TestBatchesOfTheGatewayEnd(t *testing.T) {
	g := keeping(t)
	const window = `,"completion_window":"immediate"`
	b := g.newBatch(t, g.upload(t, "batch", batchLines(2)+"{}\n"), window).wantOK(t).object(t)
	prove(t, "S-158 S-231", "it fails", func(t *testing.T) { b = g.batchAfter(t, b["id"].(string), "failed") })
	proveShapes(t, "a line that is wrong", b, has("S-158 S-231", `"failed"`, "status"), has("S-160 S-476", `"list"`, "errors", "object"),
		has("S-160 S-476", `"custom_id"`, "errors", "data", 0, "param"), has("S-160 S-476", `3`, "errors", "data", 0, "line"))
	prove(t, "S-160 S-476", "a line that is wrong has a code and a message", func(t *testing.T) {
		e := at(b, "errors", "data", 0)
		code, _ := at(e, "code").(string)
		if message, _ := at(e, "message").(string); code == "" || message == "" {
			t.Errorf("%v", e)
		}
	})
	proveTimes(t, "S-163", "a failed batch", b, "created_at failed_at")
	proveNone(t, "S-163", "a failed batch", b, "finalizing_at completed_at expired_at cancelling_at cancelled_at")
	prove(t, "S-235", "a failed batch", func(t *testing.T) {
		g.do(t, "POST", "/v1/batches/"+b["id"].(string)+"/cancel", "", own()...).refused(t, http.StatusConflict)
	})

	slow := strings.ReplaceAll(batchLines(2), "gpt-4o", "gpt-4o+headers=1m")
	id := g.newBatch(t, g.upload(t, "batch", slow), window).wantOK(t).object(t)["id"].(string)
	prove(t, "S-158 S-231", "it is in progress", func(t *testing.T) { g.batchAfter(t, id, "in_progress") })
	cancelled := g.do(t, "POST", "/v1/batches/"+id+"/cancel", "", own()...)
	prove(t, "S-010 S-360 S-487", "cancelled", func(t *testing.T) { cancelled.wantOK(t) })
	b = cancelled.object(t)
	proveShapes(t, "cancelled", b, has("S-232 S-360 S-158 S-231", `"cancelling"`, "status"))
	proveTimes(t, "S-232 S-163", "a batch that is cancelled", b, "created_at cancelling_at")
	prove(t, "S-233 S-158 S-231", "later", func(t *testing.T) { g.batchAfter(t, id, "cancelled") })
	b = g.batchAfter(t, id, "cancelled", "completed", "failed", "expired")
	proveTimes(t, "S-163", "a cancelled batch", b, "created_at cancelling_at cancelled_at")
	proveNone(t, "S-163", "a cancelled batch", b, "completed_at failed_at expired_at")
	prove(t, "S-235", "cancelled again", func(t *testing.T) {
		g.do(t, "POST", "/v1/batches/"+id+"/cancel", "", own()...).refused(t, http.StatusConflict)
	})
	prove(t, "S-234", "an unknown batch", func(t *testing.T) {
		g.do(t, "POST", "/v1/batches/none/cancel", "", own()...).refused(t, http.StatusNotFound)
	})
}

// TestBatchesAreListed creates more batches than a page has.
func TestBatchesAreListed(t *testing.T) {
	g := keeping(t)
	file := g.upload(t, "batch", batchLines(1))
	var ids []string
	for range 22 {
		ids = append(ids, g.newBatch(t, file, `,"completion_window":"immediate"`).wantOK(t).object(t)["id"].(string))
	}
	slices.SortFunc(ids, func(a, b string) int { return strings.Compare(b, a) }) // the latest first
	read := func(t *testing.T, query string) (map[string]any, []string) {
		t.Helper()
		l := g.do(t, "GET", "/v1/batches"+query, "", own()...).wantOK(t).object(t)
		var shown []string
		data, _ := l["data"].([]any)
		for _, b := range data {
			shown = append(shown, fmt.Sprint(at(b, "id")))
		}
		return l, shown
	}
	prove(t, "S-010 S-359 S-487", "the list", func(t *testing.T) { read(t, "") })
	first, shown := read(t, "")
	prove(t, "S-358 S-501", "a page has 20 by default", func(t *testing.T) {
		if !slices.Equal(shown, ids[:20]) {
			t.Errorf("%d batches: %v, want the latest 20 of %v", len(shown), shown, ids)
		}
	})
	proveShapes(t, "the list", first, has("S-166", `"list"`, "object"), has("S-166", `true`, "has_more"),
		has("S-166", jsonText(ids[0]), "first_id"), has("S-166", jsonText(ids[19]), "last_id"), has("S-166", `"batch"`, "data", 0, "object"))
	rest, shown := read(t, "?limit=100&after="+ids[19])
	prove(t, "S-357", "after a batch", func(t *testing.T) {
		if !slices.Equal(shown, ids[20:]) {
			t.Errorf("%v, want %v", shown, ids[20:])
		}
	})
	proveShapes(t, "the last page", rest, has("S-166", `false`, "has_more"))
	prove(t, "S-357", "after a batch that does not exist", func(t *testing.T) {
		g.do(t, "GET", "/v1/batches?after=none", "", own()...).refused(t, http.StatusNotFound)
	})
	for limit, status := range map[string]int{"0": 400, "101": 400, "x": 400, "-1": 400, "1": 200, "100": 200} {
		prove(t, "S-358 S-501", "limit "+limit, func(t *testing.T) {
			if got := g.do(t, "GET", "/v1/batches?limit="+limit, "", own()...); got.status != status {
				t.Errorf("status %d, want %d: %s", got.status, status, got.body)
			}
		})
	}
}

// TestBatchesAreChecked creates batches with one field that is wrong or at its limit.
func TestBatchesAreChecked(t *testing.T) {
	g := keeping(t)
	file := g.upload(t, "batch", batchLines(1))
	const endpoint, window = `,"endpoint":"/v1/chat/completions"`, `,"completion_window":"24h"`
	input := `"input_file_id":"` + file + `"`
	pairs := func(n int) string {
		m := make(map[string]string)
		for i := range n {
			m[fmt.Sprint(i)] = "v"
		}
		return `,"metadata":` + jsonText(m)
	}
	for _, tt := range []struct{ of, name, body, param string }{
		{"S-351", "no input file", endpoint[1:] + window, "input_file_id"},
		{"S-351", "an input file that is a number", `"input_file_id":1` + endpoint + window, "input_file_id"},
		{"S-352", "no completion window", input + endpoint, "completion_window"},
		{"S-352", "another completion window", input + endpoint + `,"completion_window":"7d"`, "completion_window"},
		{"S-354", "no endpoint", input + window, "endpoint"},
		{"S-354", "another endpoint", input + window + `,"endpoint":"/v1/things"`, "endpoint"},
		{"S-165 S-502", "metadata of 17 pairs", input + endpoint + window + pairs(17), "metadata"},
		{"S-165 S-502", "a key of 65 characters", input + endpoint + window + `,"metadata":{"` + strings.Repeat("é", 65) + `":"v"}`, "metadata"},
		{"S-165 S-502", "a value of 513 characters", input + endpoint + window + `,"metadata":{"k":"` + strings.Repeat("é", 513) + `"}`, "metadata"},
	} {
		prove(t, tt.of, tt.name, func(t *testing.T) {
			g.do(t, "POST", "/v1/batches", "{"+tt.body+"}", own()...).refusedFor(t, tt.param)
		})
	}
	for _, tt := range []struct{ of, name, body string }{
		{"S-352", "24h", input + endpoint + window},
		{"S-352 S-353", "immediate", input + endpoint + `,"completion_window":"immediate"`},
		{"S-354", "text completions", input + window + `,"endpoint":"/v1/completions"`},
		{"S-354", "embeddings", input + window + `,"endpoint":"/v1/embeddings"`},
		{"S-355", "null for metadata", input + endpoint + window + `,"metadata":null`},
		{"S-165 S-502", "metadata of 16 pairs", input + endpoint + window + pairs(16)},
		{"S-165 S-502", "a key of 64 and a value of 512 characters", input + endpoint + window + `,"metadata":{"` + strings.Repeat("é", 64) + `":"` + strings.Repeat("é", 512) + `"}`},
	} {
		prove(t, tt.of, tt.name, func(t *testing.T) { g.do(t, "POST", "/v1/batches", "{"+tt.body+"}", own()...).wantOK(t) })
	}
	prove(t, "S-353", "immediate at a provider", func(t *testing.T) {
		g.do(t, "POST", "/v1/batches", `{`+input+endpoint+`,"completion_window":"immediate"}`, managed("@sim")...).
			refusedFor(t, "completion_window")
	})
}

// TestFilesOfTheGateway keeps files and reads them with the gateway key alone.
func TestFilesOfTheGateway(t *testing.T) {
	g := keeping(t)
	here, there := g.upload(t, "user_data", "one"), g.upload(t, "batch", batchLines(1), "x-gateway-provider", "@sim")
	got := g.do(t, "GET", "/v1/files/"+here, "", own()...)
	prove(t, "S-012 S-373 S-487", "a file is read", func(t *testing.T) { got.wantOK(t) })
	f := got.object(t)
	proveShapes(t, "a file", f, has("S-187", jsonText(here), "id"), has("S-187", `"file"`, "object"), has("S-187", `3`, "bytes"),
		has("S-187", `"a.jsonl"`, "filename"), has("S-188", `"user_data"`, "purpose"), has("S-189 S-239 S-599", `"processed"`, "status"),
		has("S-190 S-599", `null`, "status_details"))
	proveTimes(t, "S-187", "a file", f, "created_at")
	prove(t, "S-190 S-599", "status_details is there", func(t *testing.T) {
		if _, shown := f["status_details"]; !shown {
			t.Errorf("no status_details: %v", f)
		}
	})
	prove(t, "S-373", "an unknown file", func(t *testing.T) {
		g.do(t, "GET", "/v1/files/none", "", own()...).refused(t, http.StatusNotFound)
	})
	for query, want := range map[string]string{"": there + " " + here, "?purpose=batch": there, "?purpose=vision": ""} {
		prove(t, "S-191 S-371 S-372 S-012 S-487", "the list "+query, func(t *testing.T) {
			l := g.do(t, "GET", "/v1/files"+query, "", own()...).wantOK(t).object(t)
			var ids []string
			data, isList := l["data"].([]any)
			for _, f := range data {
				ids = append(ids, fmt.Sprint(at(f, "id")))
			}
			if l["object"] != "list" || !isList || strings.Join(ids, " ") != want {
				t.Errorf("%v, want a list of %q", l, want)
			}
		})
	}
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

// TestFilesHaveAPurpose uploads a file for each purpose. Those of results are not for clients.
func TestFilesHaveAPurpose(t *testing.T) {
	g := keeping(t)
	for purpose, content := range map[string]string{"assistants": "a", "batch": batchLines(1), "fine-tune": `{"messages":[]}`, "vision": "png"} {
		prove(t, "S-188", purpose, func(t *testing.T) {
			id := g.upload(t, purpose, content)
			if f := g.do(t, "GET", "/v1/files/"+id, "", own()...).wantOK(t).object(t); f["purpose"] != purpose {
				t.Errorf("%v", f)
			}
		})
	}
	for _, purpose := range []string{"assistants_output", "batch_output", "fine-tune-results", "other"} {
		prove(t, "S-188", purpose+" is not for uploads", func(t *testing.T) {
			const b = "--b\r\nContent-Disposition: form-data; name="
			form := b + "\"purpose\"\r\n\r\n" + purpose + "\r\n" + b + "\"file\"; filename=\"a.jsonl\"\r\n\r\na\r\n--b--\r\n"
			g.do(t, "POST", "/v1/files", form, own("Content-Type", "multipart/form-data; boundary=b")...).refusedFor(t, "purpose")
		})
	}
	prove(t, "S-188", "results of a batch are batch_output", func(t *testing.T) {
		b := g.newBatch(t, g.upload(t, "batch", batchLines(3)), `,"completion_window":"immediate"`).wantOK(t).object(t)
		b = g.batchAfter(t, b["id"].(string), "completed")
		for _, id := range []any{b["output_file_id"], b["error_file_id"]} {
			if f := g.do(t, "GET", "/v1/files/"+fmt.Sprint(id), "", own()...).wantOK(t).object(t); f["purpose"] != "batch_output" {
				t.Errorf("%v", f)
			}
		}
	})
}
