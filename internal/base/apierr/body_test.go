package apierr_test

import (
	"testing"

	"modelgate/internal/base/apierr"
)

func TestBodyShowsTheMessageAsItIs(t *testing.T) {
	got := string(apierr.New(apierr.Invalid, "send <key> & \"more\"").WithParam("authorization").Body())
	const message = `"send <key> & \"more\""`
	want := `{"error":{"message":` + message + `,"type":"invalid_request_error","param":"authorization","code":"invalid_request","source":"gateway"},` +
		`"status":"failure","message":` + message + `}`
	if got != want {
		t.Errorf("Body = %s, want %s", got, want)
	}
}
