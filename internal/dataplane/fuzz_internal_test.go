package dataplane

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"modelgate/api"
	"modelgate/internal/base/apierr"
)

// FuzzRequestOptions reads a value by every reader of the gateway's own headers:
// what is accepted is within its bounds, what is refused names the header.
func FuzzRequestOptions(f *testing.F) {
	for _, seed := range []string{
		"trace-1", "30000", "-1", "9223372036854775808", `["a","b"]`, "a, ,b", `{"a":"b","n":1,"t":true}`, `{"a":{}}`, `{"a":null}`, `{"\ud800":"\udfff"}`, "true", "TRUE", "\x00", "é",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if got, err := visibleASCII(api.HeaderTraceID, value); err == nil && (len(got) > maxWord || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r > '~' })) {
			t.Errorf("word(%q) = %q", value, got)
		}
		if d, err := milliseconds(api.HeaderRequestTimeout, value); err == nil && (d < 0 || d > 24*time.Hour) {
			t.Errorf("milliseconds(%q) = %v", value, d)
		}
		if list, err := nameList(api.HeaderForwardHeaders, value); err == nil && len(list) > len(value) {
			t.Errorf("nameList(%q) has %d names", value, len(list))
		}
		pairs, err := metadata(value)
		for k, v := range pairs {
			if utf8.RuneCountInString(v) > api.MaxMetadataValue {
				t.Errorf("metadata(%q)[%q] has %d characters", value, k, utf8.RuneCountInString(v))
			}
		}
		if err != nil {
			if e, ok := err.(*apierr.Error); !ok || e.Param != "x-gateway-metadata" {
				t.Errorf("metadata(%q): %v does not name the header", value, err)
			}
		}
	})
}

// FuzzTraceContext reads W3C headers: what is accepted can be sent on as it is.
func FuzzTraceContext(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "key1=value1,key2 = value2;property1, key%20=a%20b")
	f.Add("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "=,;,%,a=%zz")
	f.Add("00-00000000000000000000000000000000-b7ad6b7169203331-01-x", strings.Repeat("a=b,", 100))
	f.Fuzz(func(t *testing.T, parent, baggage string) {
		trace, span, flags, ok := traceParent(http.Header{api.HeaderTraceParent: {parent}})
		if ok && (len(trace) != 32 || len(span) != 16 || len(flags) != 2 || !lowerHex(trace+span+flags)) {
			t.Errorf("traceParent(%q) = %q %q %q", parent, trace, span, flags)
		}
		for member := range strings.SplitSeq(baggage, ",") {
			key, value, ok := baggageMember(member)
			if ok && (key == "" || len(key) > api.MaxMetadataValue || !utf8.ValidString(value) || utf8.RuneCountInString(value) > api.MaxMetadataValue) {
				t.Errorf("baggageMember(%q) = %q, %q", member, key, value)
			}
		}
	})
}

// FuzzModelLists reads what a provider lists and the page that a client asks for.
func FuzzModelLists(f *testing.F) {
	f.Add(`{"data":[{"id":"a","created":1},{"id":"b","created":"x"}],"models":[{"name":"models/c"}]}`, "limit=1&after_id=a")
	f.Add(`{"data":null,"models":[{}]}`, "before_id=&limit=0")
	f.Add(`[]`, "limit=1000&before_id=b&after_id=c")
	f.Fuzz(func(t *testing.T, body, query string) {
		list, err := readModels(strings.NewReader(body))
		if err != nil {
			return
		}
		var all modelList
		for _, m := range list {
			all.Data = append(all.Data, model{ID: m.id, Created: m.created})
		}
		page, err := all.page(query)
		if err != nil {
			return
		}
		if len(page.Data) > maxPageSize || len(page.Data) > len(all.Data) {
			t.Errorf("a page of %q has %d of %d models", query, len(page.Data), len(all.Data))
		}
		if _, err := json.Marshal(page); err != nil {
			t.Errorf("the page of %q: %v", query, err)
		}
	})
}
