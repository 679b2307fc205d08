package dialects

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"modelgate/api"
)

const page = "../../docs/dialects.md"

// TestTheDialectsPageIsCurrent compares docs/dialects.md with what the codecs do
// and what the matrix found.
func TestTheDialectsPageIsCurrent(t *testing.T) {
	matrix, err := os.ReadFile("testdata/matrix.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := intro + pairTable(string(matrix)) + parametersIntro + parameterTables(t) + historyIntro + historyTables(t)
	golden(t, page, want)
}

// pairTable is the golden table of the matrix as Markdown: a line for each case,
// in which the pairs that differ from ok are named.
func pairTable(matrix string) string {
	var b strings.Builder
	b.WriteString("| case | client | chat | messages | responses | gemini | converse | cohere |\n|---|---|---|---|---|---|---|---|\n")
	for block := range strings.SplitSeq(strings.TrimSpace(matrix), "\n\n") {
		lines := strings.Split(block, "\n")
		name := strings.TrimSpace(lines[0][:32])
		groups := map[string][]string{}
		var order []string
		for _, l := range lines[1:] {
			fields := strings.Fields(l)
			if strings.HasPrefix(l, "    ") || fields[1] == unsaid && len(groups) > 0 && allUnsaid(fields) {
				continue
			}
			row := strings.Join(fields[1:], " | ")
			if groups[row] == nil {
				order = append(order, row)
			}
			groups[row] = append(groups[row], fields[0])
		}
		for _, row := range order {
			if strings.Trim(row, "-| ") == "" {
				continue
			}
			who := strings.Join(groups[row], ", ")
			if len(groups[row]) == len(clients) {
				who = "all"
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", name, who, row)
		}
	}
	return b.String()
}

func allUnsaid(fields []string) bool { return strings.Trim(strings.Join(fields[1:], ""), "-") == "" }

// parameterTables has a table for each client's protocol.
func parameterTables(t *testing.T) string {
	var b strings.Builder
	for _, from := range clients {
		d := api.Dialect(from.name)
		fmt.Fprintf(&b, "\n### Clients of %s\n\n| parameter |", d)
		for _, to := range others(d) {
			fmt.Fprintf(&b, " %s |", to.dialect)
		}
		b.WriteString("\n|---|" + strings.Repeat("---|", len(others(d))) + "\n")
		for i := range samples[d] {
			s := &samples[d][i]
			fmt.Fprintf(&b, "| %s |", s.name)
			for _, to := range others(d) {
				fmt.Fprintf(&b, " %s |", strings.ReplaceAll(fate(t, d, to, s), "|", "\\|"))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// historyTables has a table for each client's protocol, of the types of content
// that do not reach every target unchanged.
func historyTables(t *testing.T) string {
	var b strings.Builder
	for _, from := range clients {
		d := api.Dialect(from.name)
		fmt.Fprintf(&b, "\n### Content of %s\n\n| type |", d)
		for _, to := range others(d) {
			fmt.Fprintf(&b, " %s |", to.dialect)
		}
		b.WriteString("\n|---|" + strings.Repeat("---|", len(others(d))) + "\n")
		written := map[string]bool{}
		for i := range historySamples[d] {
			s := &historySamples[d][i]
			row, changed := "| `"+s.typ+"` |", false
			for _, to := range others(d) {
				outcome, _ := historyOutcome(t, d, to, s)
				row, changed = row+" "+outcome+" |", changed || outcome != carried
			}
			if changed && !written[row] && !strings.Contains(s.typ, "omorrow") {
				b.WriteString(row + "\n")
				written[row] = true
			}
		}
	}
	return b.String()
}

// others are the targets that do not speak d.
func others(d api.Dialect) (list []*target) {
	for _, to := range targets {
		if to.dialect != d {
			list = append(list, to)
		}
	}
	return list
}
