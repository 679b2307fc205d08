package dataplane_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"testing"

	"modelgate/internal/gatewaytest"
)

// form returns a multipart body with these fields in order; one named file is a
// file of that many bytes.
func form(t *testing.T, fields ...[2]string) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, f := range fields {
		if f[0] != "file" {
			w.WriteField(f[0], f[1])
			continue
		}
		part, err := w.CreateFormFile("file", f[1])
		if err != nil {
			t.Fatal(err)
		}
		part.Write(bytes.Repeat([]byte{0, 1, 2, 255}, 8<<10))
	}
	w.Close()
	return b.String(), w.FormDataContentType()
}

func TestTheModelOfAFormIsRecordedWhenItComesEarly(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	for _, tt := range []struct {
		name   string
		fields [][2]string
		want   any
	}{
		{"before the file", [][2]string{{"model", "whisper-1"}, {"file", "a.mp3"}}, "whisper-1"},
		{"after the file", [][2]string{{"file", "a.mp3"}, {"model", "whisper-1"}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, contentType := form(t, tt.fields...)
			res := g.Post("/audio/transcriptions", body, "Content-Type", contentType)
			if res.Status != http.StatusOK {
				t.Fatalf("status %d: %s", res.Status, res.Body)
			}
			e := g.Entry(res)
			if e["model"] != tt.want || e["request_bytes"] != float64(len(body)) {
				t.Errorf("recorded model %v and %v bytes, want %v and %d", e["model"], e["request_bytes"], tt.want, len(body))
			}
		})
	}
}
