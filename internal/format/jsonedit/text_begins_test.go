package jsonedit_test

import (
	"strings"
	"testing"

	"modelgate/internal/format/jsonedit"
)

func TestStringBegins(t *testing.T) {
	for _, tt := range []struct {
		body     string
		prefixes []string
		want     bool
	}{
		{`{"reasoning_content":"x"}`, []string{"reasoning"}, true},
		{`{"a":1,"b":2}`, []string{"c", `b"`}, true},
		{`{"usage":null}`, []string{`usage"`}, true},
		{`{"usages":null}`, []string{`usage"`}, false},
		{`{"x":"usage"}`, []string{`usage"`}, true},
		{`{"x":"my usage"}`, []string{"usage"}, false},
		{`{"\u0075sage":null}`, []string{"usage"}, false},
		{`{"x":"a \"usage\" b"}`, []string{"usage"}, true},
		{`{"usa`, []string{"usage"}, false},
		{`"`, []string{"usage"}, false},
		{``, []string{"usage"}, false},
		{`{"usage":1}`, nil, false},
		{`{"k":"` + strings.Repeat("text ", 1000) + `","mg1.x":1}`, []string{"mg1."}, true},
	} {
		if got := jsonedit.StringBegins([]byte(tt.body), tt.prefixes...); got != tt.want {
			t.Errorf("StringBegins(%.40q, %q) = %t, want %t", tt.body, tt.prefixes, got, tt.want)
		}
	}
}
