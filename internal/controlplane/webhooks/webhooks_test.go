package webhooks_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/egress"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
	"modelgate/internal/upstream"
)

const public = "https://hooks.example.com/batches"

func TestAnEndpointHasTheShapeOfOpenAI(t *testing.T) {
	b := newBench(t)
	var made, read, list, changed, deleted map[string]any
	b.Must("POST", "/webhook_endpoints", `{"name":"n","description":"d","url":"`+public+`?key=k","event_types":["batch.completed","batch.failed","batch.completed"]}`, &made)
	path := "/webhook_endpoints/" + made["id"].(string)
	b.Must("GET", path, "", &read)
	secret, _ := made["signing_secret"].(string)
	delete(made, "signing_secret")
	if fmt.Sprint(made) != fmt.Sprint(read) || !strings.HasPrefix(secret, "whsec_") {
		t.Errorf("created %v with %q\nread %v", made, secret, read)
	}
	for name, want := range map[string]any{
		"object": "webhook_endpoint", "name": "n", "description": "d", "url": public + "?key=k", "event_types": []any{"batch.completed", "batch.failed"},
		"created_at": float64(b.Clock.Unix()), "updated_at": float64(b.Clock.Unix()), "status": "enabled",
		"signing_secret_hint": "…" + secret[len(secret)-4:], "workspace_id": store.DefaultWorkspace, "disabled_reason": nil,
	} {
		if fmt.Sprint(read[name]) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", name, read[name], want)
		}
	}
	b.Clock = b.Clock.Add(time.Minute)
	b.Must("POST", path, `{"name":"m","url":"https://hooks.example.org"}`, &changed)
	if changed["name"] != "m" || changed["url"] != "https://hooks.example.org" || changed["updated_at"] != float64(b.Clock.Unix()) || len(changed["event_types"].([]any)) != 2 {
		t.Errorf("changed %v", changed)
	}
	b.Must("GET", "/webhook_endpoints", "", &list)
	if list["object"] != "list" || list["has_more"] != false || len(list["data"].([]any)) != 1 {
		t.Errorf("list %v", list)
	}
	b.Must("DELETE", path, "", &deleted)
	if deleted["deleted"] != true || deleted["object"] != "webhook_endpoint.deleted" || deleted["id"] != made["id"] {
		t.Errorf("deleted %v", deleted)
	}
	if a := b.Call("GET", path, ""); a.Status != http.StatusNotFound {
		t.Errorf("afterwards: %d %s", a.Status, a.Body)
	}
}

func TestListsContinueAfterAnEndpoint(t *testing.T) {
	b := newBench(t)
	var made []string
	for range 5 {
		made = append(made, b.create(public).ID)
		b.Clock = b.Clock.Add(time.Second)
	}
	var read []string
	for after := ""; ; after = read[len(read)-1] {
		var page struct {
			Data []endpoint
			More bool `json:"has_more"`
		}
		b.Must("GET", "/webhook_endpoints?limit=2&after="+after, "", &page)
		for _, e := range page.Data {
			read = append(read, e.ID)
		}
		if !page.More || len(read) > 9 {
			break
		}
	}
	if want := []string{made[4], made[3], made[2], made[1], made[0]}; fmt.Sprint(read) != fmt.Sprint(want) {
		t.Errorf("read %v, want %v", read, want)
	}
}

func TestInvalidEndpointsAreRefusedByName(t *testing.T) {
	b := newBench(t)
	b.client = upstream.New(upstream.Options{TrustedHosts: []string{"hooks.internal", "10.1.0.0/16"}})
	b.API.CheckHost = b.client.(*upstream.Client).CheckHost
	policy := egress.Policy{CustomHosts: egress.Hosts{"*.example.com", "http://hooks.internal", "http://10.1.2.3:8080", "localhost", "10.2.2.3"}}
	b.egress = &egress.Policies{Organisation: policy.Strict()}
	e := b.create(public)
	for _, tt := range []struct{ field, value, want string }{
		{"url", `""`, "url"},
		{"url", `"hooks.example.com"`, "url must be an https address"},
		{"url", `"ftp://hooks.example.com"`, "url must be an https address"},
		{"url", `"https://"`, "url must be an https address"},
		{"url", `"https://user:canary@hooks.example.com"`, "url must not contain a user"},
		{"url", `"https://hooks.example.com/#canary"`, "url must not have a fragment"},
		{"url", `"http://hooks.example.com"`, "upstream.trusted_hosts"},
		{"url", `"https://10.2.2.3"`, "rule private"},
		{"url", `"https://169.254.169.254/latest"`, "rule metadata"},
		{"url", `"https://localhost"`, "url is not allowed"},
		{"url", `"https://hooks.example.com:22/"`, "rule blocked-port"},
		{"url", `"https://hooks.example.net"`, "the egress policy does not allow the host hooks.example.net"},
		{"url", `"https://hooks.example.com/` + strings.Repeat("a", 2048) + `"`, "url"},
		{"event_types", `[]`, "event_types"},
		{"event_types", `["batch.completed","eval.run.failed"]`, `event_types contains "eval.run.failed"`},
		{"name", `""`, "name"},
		{"name", `"` + strings.Repeat("a", 256) + `"`, "name"},
		{"description", `"` + strings.Repeat("a", 1025) + `"`, "description"},
		{"status", `"paused"`, "status"},
	} {
		fields := map[string]string{"name": `"n"`, "url": `"` + public + `"`, "event_types": `["batch.completed"]`}
		fields[tt.field] = tt.value
		var body []string
		for name, value := range fields {
			body = append(body, fmt.Sprintf("%q:%s", name, value))
		}
		for _, a := range []struct{ method, path, body string }{
			{"POST", "/webhook_endpoints", "{" + strings.Join(body, ",") + "}"},
			{"PUT", "/webhook_endpoints/" + e.ID, fmt.Sprintf("{%q:%s}", tt.field, tt.value)},
		} {
			res := b.Call(a.method, a.path, a.body)
			text := strings.ReplaceAll(res.Body, `\"`, `"`)
			if res.Status != http.StatusBadRequest || !strings.Contains(text, tt.want) || strings.Contains(text, "canary") {
				t.Errorf("%s %s: %d %s, want 400 and %q", a.method, a.body, res.Status, res.Body, tt.want)
			}
		}
	}
	for _, address := range []string{"http://hooks.internal/a", "http://10.1.2.3:8080/a?b=c", "https://a.example.com"} {
		b.create(address)
	}
}

func TestAWorkspaceHasALimitedNumberOfEndpoints(t *testing.T) {
	b := newBench(t)
	for range 20 {
		b.create(public)
	}
	body := `{"name":"n","url":"` + public + `","event_types":["batch.completed"]`
	if a := b.Call("POST", "/webhook_endpoints", body+"}"); a.Status != http.StatusConflict || !strings.Contains(a.Body, "20") {
		t.Errorf("one more: %d %s", a.Status, a.Body)
	}
	b.Must("POST", "/webhook_endpoints", body+`,"workspace_id":"`+b.addWorkspace()+`"}`, nil)
}

func TestASecretIsShownOnce(t *testing.T) {
	b := newBench(t)
	e := b.create(public)
	var rotated endpoint
	b.Must("POST", "/webhook_endpoints/"+e.ID+"/rotate_secret", `{}`, &rotated)
	read := b.Call("GET", "/webhook_endpoints", "").Body + b.Call("GET", "/webhook_endpoints/"+e.ID, "").Body
	stored := b.Query(`SELECT sealed || previous || hint FROM webhook_endpoints`)[0] +
		strings.Join(b.Query(`SELECT action || request_body FROM audit_logs`), "")
	for _, secret := range []string{e.Secret, rotated.Secret} {
		if secret == "" || strings.Contains(read, secret) || strings.Contains(stored, secret) {
			t.Errorf("the secret %q is shown or stored", secret)
		}
	}
	if !strings.Contains(stored, "rotate") || e.Secret == rotated.Secret {
		t.Errorf("stored: %s", stored)
	}
	b.API.Secrets = nil
	if a := b.Call("POST", "/webhook_endpoints/"+e.ID+"/rotate_secret", ""); a.Status != http.StatusServiceUnavailable || !strings.Contains(a.Body, "master key") {
		t.Errorf("without a master key: %d %s", a.Status, a.Body)
	}
}

func TestDeliveriesBelongToTheirEndpoint(t *testing.T) {
	b := newBench(t)
	own := b.create(public)
	b.emit()
	d := b.deliveries(own.ID, "")[0]
	other := b.create(public)
	foreign := b.As(access.Identity{Type: access.WorkspaceService, Workspace: b.addWorkspace(), Scopes: access.Scopes(access.WorkspaceService)})
	for _, tt := range []struct {
		by   *routetest.Caller
		path string
	}{
		{b.Caller, other.ID + "/deliveries/" + d.ID}, {foreign, own.ID + "/deliveries/" + d.ID},
		{foreign, own.ID + "/deliveries"}, {foreign, own.ID},
	} {
		if a := tt.by.Call("GET", "/webhook_endpoints/"+tt.path, ""); a.Status != http.StatusNotFound {
			t.Errorf("%s: %d %s", tt.path, a.Status, a.Body)
		}
	}
	if a := b.Call("POST", "/webhook_endpoints/"+own.ID+"/deliveries/"+d.ID+"/retry", ""); a.Status != http.StatusConflict || !strings.Contains(a.Body, "pending") {
		t.Errorf("retrying a pending one: %d %s", a.Status, a.Body)
	}
	b.Must("DELETE", "/webhook_endpoints/"+own.ID, "", nil)
	if n := b.runner.RunDue(t.Context()); n != 0 {
		t.Errorf("%d jobs of a deleted endpoint ran", n)
	}
}

func TestASampleIsSentOnDemand(t *testing.T) {
	b := newBench(t)
	code := http.StatusOK
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	e := b.create(r.URL)
	path := "/webhook_endpoints/" + e.ID + "/test"
	var result struct {
		Success bool
		Status  *int `json:"status_code"`
		Error   *string
	}
	b.Must("POST", path, `{"event_type":"response.failed"}`, &result)
	got := r.got()
	if len(got) != 1 || !result.Success || *result.Status != 200 || result.Error != nil || !strings.Contains(string(got[0].body), `"type":"response.failed"`) {
		t.Fatalf("%d requests, %+v", len(got), result)
	}
	if err := got[0].verify(e.Secret); err != nil {
		t.Error(err)
	}
	code = http.StatusTeapot
	b.Must("POST", path, `{"event_type":"batch.failed"}`, &result)
	if !result.Success || *result.Status != code || result.Error == nil {
		t.Errorf("%+v", result)
	}
	r.Close()
	result.Status = nil
	b.Must("POST", path, `{"event_type":"batch.failed"}`, &result)
	if result.Success || result.Status != nil || !strings.Contains(*result.Error, "cannot be reached") {
		t.Errorf("%+v", result)
	}
	if a := b.Call("POST", path, `{"event_type":"none"}`); a.Status != http.StatusBadRequest {
		t.Errorf("of an unknown type: %d %s", a.Status, a.Body)
	}
	if list := b.deliveries(e.ID, ""); len(list) != 0 {
		t.Errorf("samples are deliveries: %+v", list)
	}
}
