package dataplane

import (
	"strings"
	"testing"
)

func TestModelsComeInPages(t *testing.T) {
	t.Parallel()
	list := modelList{Data: []model{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}}}
	for _, tt := range []struct {
		query, ids string
		more       bool
	}{
		{"", "a b c d", false},
		{"limit=2", "a b", true},
		{"limit=4", "a b c d", false},
		{"limit=2&after_id=b", "c d", false},
		{"limit=1&after_id=b", "c", true},
		{"after_id=d", "", false},
		{"limit=2&before_id=d", "b c", true},
		{"limit=9&before_id=b", "a", false},
		{"before_id=a", "", false},
		{"after_id=unknown", "a b c d", false},
	} {
		page, err := list.page(tt.query)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, m := range page.Data {
			ids = append(ids, m.ID)
		}
		if got := strings.Join(ids, " "); got != tt.ids || page.HasMore != tt.more {
			t.Errorf("%q gives %q, more %t; want %q, more %t", tt.query, got, page.HasMore, tt.ids, tt.more)
		}
	}
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "%zz", "limit=1&limit=2"} {
		if _, err := list.page(query); err == nil {
			t.Errorf("%q was taken", query)
		}
	}
}
