package apierr_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/base/apierr"
)

func TestAKindFixesStatusTypeAndCode(t *testing.T) {
	for kind, want := range map[apierr.Kind]string{
		apierr.Internal:         "500 server_error internal_error",
		apierr.Invalid:          "400 invalid_request_error invalid_request",
		apierr.Unauthenticated:  "401 authentication_error invalid_api_key",
		apierr.Forbidden:        "403 permission_error forbidden",
		apierr.NotFound:         "404 invalid_request_error not_found",
		apierr.MethodNotAllowed: "405 invalid_request_error method_not_allowed",
		apierr.Timeout:          "408 timeout_error timeout",
		apierr.Conflict:         "409 invalid_request_error conflict",
		apierr.BudgetExhausted:  "412 budget_error budget_exhausted",
		apierr.TooLarge:         "413 invalid_request_error request_too_large",
		apierr.RateLimited:      "429 rate_limit_error rate_limited",
		apierr.UpgradeRefused:   "426 invalid_request_error websocket_unsupported",
		apierr.HeadersTooLarge:  "431 invalid_request_error request_headers_too_large",
		apierr.Denied:           "446 hooks_failed denied_by_guardrail",
		apierr.ClientGone:       "499 client_error client_closed_request",
		apierr.Unsupported:      "501 invalid_request_error unsupported_operation",
		apierr.UpstreamFailed:   "502 upstream_error upstream_failed",
		apierr.Unavailable:      "503 server_error unavailable",
		apierr.UpstreamTimeout:  "504 upstream_error upstream_timeout",
	} {
		e := apierr.New(kind, "m")
		if got := fmt.Sprint(e.Status(), " ", e.Type(), " ", e.CodeOrDefault()); got != want {
			t.Errorf("kind %d = %s, want %s", kind, got, want)
		}
	}
	if got := apierr.New(apierr.Invalid, "m").WithCode("special").CodeOrDefault(); got != "special" {
		t.Errorf("CodeOrDefault() = %s, want special", got)
	}
}

func TestABodyHasBothShapes(t *testing.T) {
	for name, tt := range map[string]struct {
		e    *apierr.Error
		want string
	}{
		"plain": {apierr.New(apierr.NotFound, "no %s", "x"),
			`{"error":{"message":"no x","type":"invalid_request_error","param":null,"code":"not_found","source":"gateway"},"status":"failure","message":"no x"}`},
		"with a parameter": {apierr.New(apierr.Invalid, "bad").WithParam("n").WithCode("c").WithCause(errors.New("secret cause")),
			`{"error":{"message":"bad","type":"invalid_request_error","param":"n","code":"c","source":"gateway"},"status":"failure","message":"bad"}`},
	} {
		if got := string(tt.e.Body()); got != tt.want {
			t.Errorf("%s: Body() = %s, want %s", name, got, tt.want)
		}
	}
	text := "\xff\x00\u2028\"<script>\r\n"
	if b := apierr.New(apierr.Invalid, "%s", text).WithParam(text).Body(); !json.Valid(b) || strings.ContainsAny(string(b), "\r\n") {
		t.Errorf("Body() = %q, want one line of JSON", b)
	}
}

func TestOnlyItsOwnErrorsAreShown(t *testing.T) {
	cause := errors.New("password=hunter2")
	e := apierr.From(fmt.Errorf("reading: %w", cause))
	if e.Kind != apierr.Internal || strings.Contains(string(e.Body()), "hunter2") {
		t.Errorf("From(a foreign error) = %s", e.Body())
	}
	if !errors.Is(e, cause) {
		t.Error("the cause is lost for the log")
	}
	own := apierr.New(apierr.Conflict, "taken")
	if got := apierr.From(fmt.Errorf("storing: %w", own)); got != own {
		t.Errorf("From(wrapped) = %v, want the error itself", got)
	}
	if apierr.From(nil) != nil {
		t.Error("From(nil) is not nil")
	}
}
