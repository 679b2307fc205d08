package dataplane_test

import (
	"fmt"
	"strings"
	"testing"
)

// An image that a model drew through OpenRouter is in a member of its message. It
// reaches every other target, or is reported to the client.
func TestDrawnImagesInHistoryReachEveryTarget(t *testing.T) {
	t.Parallel()
	send := newRequestRecorder(t)
	const body = `{"model":%q,"stream":%t,"messages":[{"role":"user","content":"draw"},` +
		`{"role":"assistant","content":"here","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]},{"role":"user","content":"bluer"}]}`
	for _, target := range dialectTargets[1:] { // chat providers that are not strict get what the client sends
		t.Run(target, func(t *testing.T) {
			_, sent, e := send(clientFormats[0], body, target, "m")
			if notes := fmt.Sprint(e["params"]); !strings.Contains(sent, "iVBORw0KGgo=") && !strings.Contains(notes, "images") {
				t.Errorf("sent %s, announced %s", sent, notes)
			}
			if strings.Contains(sent, `"images":[{"type"`) {
				t.Errorf("sent with a member of another vendor: %s", sent)
			}
		})
	}
}
