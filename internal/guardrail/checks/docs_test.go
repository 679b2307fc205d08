package checks_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/guardrail"
	"modelgate/internal/guardrail/checks"
)

var update = flag.Bool("update", false, "write the reference in docs/guardrail-checks.md")

const (
	page  = "../../../docs/guardrail-checks.md"
	start = "<!-- The reference is generated: go test ./internal/guardrail/checks -run TestReference -update -->\n"
)

// TestReferenceOfChecksIsThatOfTheTable keeps the page and the table of checks
// equal.
func TestReferenceOfChecksIsThatOfTheTable(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	byHand, _, ok := strings.Cut(string(text), start)
	if !ok {
		t.Fatalf("%s lacks the line %q", page, start)
	}
	want := byHand + start + reference()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("%s differs from the table of checks; run go test ./internal/guardrail/checks -run TestReference -update", page)
	}
}

// shared are the parameters that most checks have.
var shared = []string{"is_enabled", "failOnError", "timeout", "scope", "kinds", "credentials", "forwardHeaders"}

func reference() string {
	var b strings.Builder
	family := ""
	for _, d := range checks.New(checks.Services{}).Definitions() {
		if d.Family() != family {
			family = d.Family()
			fmt.Fprintf(&b, "\n## %s\n", family)
		}
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n", d.ID, d.Summary)
		var facts []string
		switch d.On {
		case guardrail.Before:
			facts = append(facts, "Requests only.")
		case guardrail.After:
			facts = append(facts, "Responses only.")
		default:
			facts = append(facts, "Requests and responses.")
		}
		if d.Transforms {
			facts = append(facts, "Can change the text.")
		}
		if d.FailOnError {
			facts = append(facts, "An error of the check is a failure by default.")
		}
		if d.Timeout > 0 {
			facts = append(facts, fmt.Sprintf("Time limit %d ms.", d.Timeout/time.Millisecond))
		}
		if len(d.Credentials) > 0 {
			facts = append(facts, "Credentials: `"+strings.Join(d.Credentials, "`, `")+"`.")
		}
		b.WriteString(strings.Join(facts, " ") + "\n")
		var rows strings.Builder
		for _, p := range d.Params {
			if slices.Contains(shared, p.Name) {
				continue
			}
			value := "required"
			if !p.Required {
				value = "–"
			}
			if p.Default != "" {
				value = "`" + p.Default + "`"
			}
			kind := string(p.Type)
			if len(p.Enum) > 0 {
				kind += ": " + strings.Join(p.Enum, ", ")
			}
			if p.Min != 0 || p.Max != 0 {
				kind += fmt.Sprintf(", %g to %g", p.Min, p.Max)
			}
			rows.WriteString(fmt.Sprintf("| `%s` | %s | %s | %s |\n", p.Name, kind, value, p.Doc))
		}
		if rows.String() != "" {
			b.WriteString("\n| parameter | type | default | meaning |\n|---|---|---|---|\n" + rows.String())
		}
	}
	return b.String()
}
