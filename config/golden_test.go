package config_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"modelgate/config"
)

var update = flag.Bool("update", false, "write the golden files")

// testdata/faults.txt holds configs, each followed by its faults as lines that
// begin with a hash.
func TestFaultsReadAsReviewed(t *testing.T) {
	const file = "testdata/faults.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		input := withoutFaults(block)
		if out.Len() > 0 {
			out.WriteByte('\n')
		}
		fmt.Fprintln(&out, input)
		for _, f := range faultsOf(t, input) {
			fmt.Fprintf(&out, "# %s %s\n", f.Path, f.Message)
		}
	}
	compareFile(t, file, out.Bytes())
}

func withoutFaults(block string) string {
	var lines []string
	for line := range strings.SplitSeq(block, "\n") {
		if !strings.HasPrefix(line, "# ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

func TestErrorListsEveryFaultOnOneLine(t *testing.T) {
	_, err := config.Parse([]byte(`{"retry":{"attempts":-1},"weight":"1"}`))
	want := "AB01: invalid config: $.retry.attempts must be at least 0, not -1; $.weight must be a number, not a string"
	if err == nil || err.Error() != want {
		t.Errorf("error = %v\nwant    %s", err, want)
	}
}

func TestFaultsDoNotRepeatCredentials(t *testing.T) {
	for _, text := range []string{
		`{"provider":"openai","api_key":["sekret"]}`,
		`{"provider":"openai","custom_host":"https://me:sekret@h.example.com"}`,
		`{"provider":"openai","api_key":"sekret","apiKey":"sekret"}`,
		`{"provider":"openai","api_key":"sekret","colour":1}`,
		`{"provider":"openai","api_key":"sekret`,
		`{"provider":"vertex-ai","cloud_b_service_account_json":"sekret"}`,
	} {
		_, err := config.Parse([]byte(text))
		if _, ok := errors.AsType[*config.Errors](err); !ok || strings.Contains(err.Error(), "sekret") {
			t.Errorf("Parse(%s) = %v, want a fault without the credential", text, err)
		}
	}
}
