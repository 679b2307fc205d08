package route

import (
	"net/http"
	"strings"
	"testing"
)

// A body with budgets deep inside is not decoded once for each level.
func TestBudgetsAreReadOnlyWhereTheyCanBe(t *testing.T) {
	for depth, want := range map[int]string{0: "null", 2: "null", 3: "[]", 9000: "[]"} {
		open := strings.Repeat(`{"workspaces":`, depth)
		c := &Caller{body: []byte(open + `{"usage_limits":[]}` + strings.Repeat("}", depth))}
		r := &Route{budgets: oneBudget}
		if err := r.normaliseBudgets(new(http.Request), c); err != nil || !strings.Contains(string(c.body), `"usage_limits":`+want) {
			t.Errorf("%d levels deep: %v, %.80s, want %s", depth, err, c.body[len(open):], want)
		}
	}
}
