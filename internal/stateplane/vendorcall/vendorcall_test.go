package vendorcall_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/vendorcall"
)

// callerFunc is a Caller from a function.
type callerFunc func(r *vendorcall.Request) (*vendorcall.Response, error)

func (f callerFunc) Call(_ context.Context, r *vendorcall.Request) (*vendorcall.Response, error) {
	return f(r)
}

func responds(status int, body string, header ...string) callerFunc {
	return func(*vendorcall.Request) (*vendorcall.Response, error) {
		h := http.Header{}
		for i := 0; i+1 < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &vendorcall.Response{Status: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

func call(t *testing.T, c vendorcall.Caller, out any) error {
	t.Helper()
	return vendorcall.Client{Caller: c, Provider: "acme"}.JSON(t.Context(), &vendorcall.Request{Method: "GET", Path: "/x"}, nil, out)
}

func TestBodiesAreSentAndReadAsJSON(t *testing.T) {
	var sent string
	echo := callerFunc(func(r *vendorcall.Request) (*vendorcall.Response, error) {
		body, err := io.ReadAll(r.Body)
		sent = fmt.Sprintf("%s %s %s %d %s", r.Method, r.Path, r.Header.Get("Content-Type"), r.Length, body)
		return &vendorcall.Response{Status: 201, Body: io.NopCloser(strings.NewReader(string(body)))}, err
	})
	var out map[string]int
	err := vendorcall.Client{Caller: echo}.JSON(t.Context(), &vendorcall.Request{Method: "POST", Path: "/jobs"}, map[string]int{"n": 1}, &out)
	if err != nil || out["n"] != 1 || sent != `POST /jobs application/json 7 {"n":1}` {
		t.Errorf("JSON() = %v, %v, sent %s", out, err, sent)
	}
}

func TestErrorsOfVendorsKeepTheirMessage(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		want   string
	}{
		{400, `{"error":{"message":"no such file","param":"training_file"}}`, "400 training_file acme answered 400: no such file"},
		{422, `{"detail":[{"loc":["body","hyperparameters","epochs"],"msg":"field required"}]}`,
			"400  acme answered 422: body.hyperparameters.epochs: field required"},
		{404, `[{"error":{"code":404,"message":"job not found","status":"NOT_FOUND"}}]`, "404  acme answered 404: job not found"},
		{401, `{"error":{"message":"bad key"}}`, "502  acme answered 401: bad key"},
		{403, ``, "502  acme answered 403 with an empty body"},
		{409, `{"message":"job is stopping"}`, "409  acme answered 409: job is stopping"},
		{413, `{"message":"x"}`, "413  acme answered 413: x"},
		{429, `{"message":"slow down"}`, "429  acme answered 429: slow down"},
		{500, `<html>`, "502  acme answered 500 with an empty body"},
		{503, `{"message":"later"}`, "503  acme answered 503: later"},
		{504, ``, "504  acme answered 504 with an empty body"},
		{302, ``, "502  acme answered 302 with an empty body"},
	} {
		e := apierr.From(call(t, responds(tt.status, tt.body), nil))
		if got := fmt.Sprintf("%d %s %s", e.Status(), e.Param, e.Message); got != tt.want {
			t.Errorf("status %d with %s: %s, want %s", tt.status, tt.body, got, tt.want)
		}
	}
}

func TestRefusalsOfTheGatewayKeepTheirKind(t *testing.T) {
	for status, want := range map[int]int{400: 400, 401: 401, 403: 403, 412: 412, 429: 429, 446: 446, 503: 503} {
		c := callerFunc(func(*vendorcall.Request) (*vendorcall.Response, error) {
			return &vendorcall.Response{Status: status, Unsent: true, Body: io.NopCloser(strings.NewReader(`{"error":{"message":"limit"}}`))}, nil
		})
		err := call(t, c, nil)
		if e := apierr.From(err); e.Status() != want || e.Message != "limit" || vendorcall.MayHaveArrived(err) {
			t.Errorf("status %d: %d %s, want %d and the gateway's message", status, e.Status(), e.Message, want)
		}
	}
}

func TestHostileMessagesAreShortened(t *testing.T) {
	long := strings.Repeat("ä\\u0000\\n", 100_000)
	err := call(t, responds(400, `{"message":"`+long+`"}`), nil)
	if e := apierr.From(err); len(e.Message) > 10_000 || strings.Contains(e.Message, "\n") || strings.Contains(e.Message, "\uFFFD") {
		t.Errorf("message = %q", e.Message)
	}
}

func TestRetryAfterOfVendorsIsKept(t *testing.T) {
	for value, want := range map[string]time.Duration{"7": 7 * time.Second, "-1": 0, "x": 0, "99999999": 0} {
		if e := apierr.From(call(t, responds(429, `{}`, "Retry-After", value), nil)); e.RetryAfter != want {
			t.Errorf("Retry-After %s: %v, want %v", value, e.RetryAfter, want)
		}
	}
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestResponsesAreLimitedAndMustBeJSON(t *testing.T) {
	var out struct{ N int }
	for name, c := range map[string]vendorcall.Caller{
		"not JSON":   responds(200, `<html>`),
		"wrong type": responds(200, `{"n":"x"}`),
		"cut":        responds(200, `{"n":1`),
		"too large": callerFunc(func(*vendorcall.Request) (*vendorcall.Response, error) {
			return &vendorcall.Response{Status: 200, Body: io.NopCloser(endless{})}, nil
		}),
	} {
		if e := apierr.From(call(t, c, &out)); e.Kind != apierr.UpstreamFailed || !vendorcall.MayHaveArrived(e) {
			t.Errorf("%s: %v, want a failure of the provider that may have had an effect", name, e)
		}
	}
}

func TestRequestsThatMayHaveArrivedAreRecognised(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"no error", nil, false},
		{"connection", io.ErrUnexpectedEOF, true},
		{"no response", apierr.New(apierr.UpstreamTimeout, "x"), true},
		{"client left", apierr.New(apierr.ClientGone, "x"), true},
		{"not sent", apierr.New(apierr.Invalid, "x"), false},
		{"limited here", apierr.New(apierr.RateLimited, "x"), false},
		{"400", call(t, responds(400, ""), nil), false},
		{"401", call(t, responds(401, ""), nil), false},
		{"408", call(t, responds(408, ""), nil), true},
		{"429", call(t, responds(429, ""), nil), false},
		{"500", call(t, responds(500, ""), nil), true},
		{"501", call(t, responds(501, ""), nil), false},
		{"503", call(t, responds(503, ""), nil), true},
	} {
		if got := vendorcall.MayHaveArrived(tt.err); got != tt.want {
			t.Errorf("%s: MayHaveArrived(%v) = %t, want %t", tt.name, tt.err, got, tt.want)
		}
	}
}
