package guardrail

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestParametersAreAnObjectWithoutDuplicates(t *testing.T) {
	for _, tt := range []struct{ raw, want, fault string }{
		{``, "[]", ""},
		{` null `, "[]", ""},
		{`{"b":1,"a":{"c":[2]}}`, `[{b 1} {a {"c":[2]}}]`, ""},
		{`{"a":1,"\u0061":2}`, "", `"a"`},
		{`[1]`, "", "must be an object"},
		{`{"a":1} {}`, "", "must be an object"},
	} {
		o, err := parseObject(json.RawMessage(tt.raw))
		if tt.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%s: %v, want %q", tt.raw, err, tt.fault)
			}
			continue
		}
		var got strings.Builder
		got.WriteString("[")
		for i, m := range o {
			if i > 0 {
				got.WriteString(" ")
			}
			got.WriteString(fmt.Sprintf("{%s %s}", m.Name, m.Value))
		}
		if got.WriteString("]"); err != nil || got.String() != tt.want {
			t.Errorf("%s: %s, %v; want %s", tt.raw, got.String(), err, tt.want)
		}
	}
}
