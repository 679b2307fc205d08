package dataplane

import (
	"strings"
	"testing"

	"modelgate/internal/pipeline/exchange"
)

// What a form asks for is certain once its last boundary has passed: a provider may respond
// before, and the rest may name another quality.
func TestTheFieldsOfAFormAreCertainAtItsEnd(t *testing.T) {
	const form = "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\npainter\r\n" +
		"--x\r\nContent-Disposition: form-data; name=\"image\"; filename=\"a.png\"\r\n\r\naaa\r\n" +
		"--x\r\nContent-Disposition: form-data; name=\"quality\"\r\n\r\nhd\r\n--x--\r\n"
	f := newFormFields("multipart/form-data; boundary=x")
	end := strings.LastIndex(form, "--x--")
	for i := range end {
		f.write([]byte(form[i : i+1]))
		if f.get().Certain {
			t.Fatalf("the fields are certain after %q", form[:i+1])
		}
	}
	f.write([]byte(form[end:]))
	if got, want := f.get(), (exchange.FormFields{Model: "painter", Quality: "hd", Certain: true}); got != want {
		t.Errorf("the fields of the complete form are %+v, want %+v", got, want)
	}
}
