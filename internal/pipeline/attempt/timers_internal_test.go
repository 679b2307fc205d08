package attempt

import (
	"io"
	"strings"
	"testing"

	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/upstream"
)

// The transport may come to read a body after its attempt was abandoned. What it
// took then would be missing in the next attempt.
func TestAnEndedAttemptReadsNothingOfTheBody(t *testing.T) {
	for _, tt := range []struct {
		ended bool
		left  int
	}{{true, 4}, {false, 0}} {
		body := strings.NewReader("form")
		dog := upstream.NewWatchdog(t.Context(), upstream.Timeouts{})
		if tt.ended {
			dog.Stop()
		}
		opened, _ := uploads{&exchange.Upload{Body: body}, nil, dog}.Open()
		if _, err := io.ReadAll(opened); (err != nil) != tt.ended || body.Len() != tt.left {
			t.Errorf("ended %t: %v, %d bytes left; want %d", tt.ended, err, body.Len(), tt.left)
		}
	}
}
