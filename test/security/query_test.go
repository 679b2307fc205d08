package security

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestRepeatedParametersAreRefused sends each query parameter of the control plane
// twice: readers disagree on which one counts. Of parameters that are lists, all count.
func TestRepeatedParametersAreRefused(t *testing.T) {
	t.Parallel()
	g, _ := start(t)
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				In, Name string
				Schema   struct{ Type any }
			}
		}
	}
	if err := json.Unmarshal(g.do(t, "GET", "/openapi.json", "").ok(t).body, &doc); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for path, methods := range doc.Paths {
		if strings.HasPrefix(path, "/v1/auth/") { // limited by address
			continue
		}
		for method, operation := range methods {
			target := path
			var names []string
			for _, p := range operation.Parameters {
				if p.In == "path" {
					target = strings.ReplaceAll(target, "{"+p.Name+"}", "x")
				} else if p.In == "query" && !strings.Contains(fmt.Sprint(p.Schema.Type), "array") {
					names = append(names, p.Name)
				}
			}
			for _, name := range names {
				attack(t, "smuggling", "repeated parameter: "+method+" "+path+" "+name, func(t *testing.T) {
					for _, again := range []string{"2", "1"} {
						r := g.as(t, rootKey, strings.ToUpper(method), target+"?"+name+"=1&"+name+"="+again, "")
						r.refused(t, http.StatusBadRequest, name, "once")
					}
				})
				tried++
			}
		}
	}
	if tried < 50 {
		t.Errorf("%d parameters were tried, want at least 50", tried)
	}
}
