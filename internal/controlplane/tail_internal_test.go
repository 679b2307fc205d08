package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

func mustMatcher(t *testing.T, query string, scope logstore.Scope) *logstore.Matcher {
	t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	q, err := parseTail(values)
	if err != nil {
		t.Fatal(err)
	}
	q.Scope = scope
	m, err := q.Matcher()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAWatcherWantsWhatAListingWouldHold(t *testing.T) {
	e := &reqlog.Entry{Sender: reqlog.Sender{Organisation: "o", Workspace: "w", KeyID: "k"}, Result: reqlog.Result{Status: 503}, Input: reqlog.Input{Model: "m", Config: "c", Operation: "chat", Stream: true, Metadata: map[string]string{"a": "1"}}, Origin: reqlog.Origin{Provider: "p"}, Trace: reqlog.Trace{TraceID: "t"},
		Durations: reqlog.Durations{Total: time.Second}}
	for _, tt := range []struct {
		query string
		scope logstore.Scope
		want  bool
	}{
		{"", logstore.Scope{}, true},
		{"status=503&model=m&provider=p&api_key=k&workspace=w&config=c&trace_id=t&operation=chat&stream=true&min_latency_ms=1000&metadata.a=1", logstore.Scope{Organisation: "o", Workspace: "w", Keys: []string{"k"}}, true},
		{"status=5xx", logstore.Scope{}, true},
		{"status=4xx", logstore.Scope{}, false},
		{"status=500", logstore.Scope{}, false},
		{"model=n", logstore.Scope{}, false},
		{"provider=n", logstore.Scope{}, false},
		{"api_key=n", logstore.Scope{}, false},
		{"workspace=n", logstore.Scope{}, false},
		{"config=n", logstore.Scope{}, false},
		{"trace_id=n", logstore.Scope{}, false},
		{"operation=embeddings", logstore.Scope{}, false},
		{"stream=false", logstore.Scope{}, false},
		{"min_latency_ms=1001", logstore.Scope{}, false},
		{"metadata.a=2", logstore.Scope{}, false},
		{"metadata.b=", logstore.Scope{}, false},
		{"", logstore.Scope{Organisation: "other"}, false},
		{"", logstore.Scope{Organisation: "o", Workspace: "other"}, false},
		{"", logstore.Scope{Keys: []string{"other"}}, false},
		{"", logstore.Scope{Keys: []string{}}, false},
	} {
		if got := mustMatcher(t, tt.query, tt.scope).Matches(e); got != tt.want {
			t.Errorf("%q in %+v matches = %t, want %t", tt.query, tt.scope, got, tt.want)
		}
	}
}

func TestASlowWatcherLosesEntriesAndIsNotified(t *testing.T) {
	tail := new(Tail)
	one, err := tail.join(new(access.Identity), mustMatcher(t, "", logstore.Scope{}))
	if err != nil {
		t.Fatal(err)
	}
	for range tailBuffer + 7 {
		tail.Record(t.Context(), new(reqlog.Entry)) // would wait for ever if it waited
	}
	var told strings.Builder
	if !one.sendDropped(func(b []byte) bool { told.Write(b); return true }) || told.String() != "event: dropped\ndata: {\"dropped\":7}\n\n" {
		t.Errorf("the watcher received %q, want 7 dropped", told.String())
	}
	tail.leave(one)
	if tail.watchers.Load() != nil {
		t.Error("one who left is still told")
	}
}

func TestWatchersAreBoundedAndEndWithTheGateway(t *testing.T) {
	tail := new(Tail)
	all := mustMatcher(t, "", logstore.Scope{})
	var first *subscriber
	for i := range maxWatchers {
		w, err := tail.join(&access.Identity{Organisation: fmt.Sprint(i / 10), Workspace: "w"}, all)
		if err != nil {
			t.Fatalf("watcher %d: %v", i, err)
		}
		first = w
	}
	if _, err := tail.join(&access.Identity{Organisation: "another"}, all); apierr.From(err).Kind != apierr.Unavailable {
		t.Errorf("one watcher too many: %v", err)
	}
	tail.leave(first)
	tail.Close()
	tail.Close()
	if _, err := tail.join(&access.Identity{Organisation: "another"}, all); err == nil {
		t.Error("a closed tail takes watchers")
	}
}

func TestTailsEndWithTheirPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, asked := time.Now(), 0
		tail := &Tail{Logs: &LogHandler{DB: new(store.DB), Authenticate: func(*http.Request) (*access.Identity, error) {
			asked++
			if time.Since(began) > 2*tailHeartbeat {
				return nil, apierr.New(apierr.Unauthenticated, "revoked")
			}
			return &access.Identity{Scopes: []access.Scope{access.ScopeLogsList}}, nil
		}}}
		rec := httptest.NewRecorder()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // for a tail that goes on
		defer cancel()
		tail.ServeHTTP(rec, httptest.NewRequestWithContext(ctx, "GET", TailPath, nil))
		if took := time.Since(began); took != 2*tailHeartbeat+tailLook || asked != 32 {
			t.Errorf("watching ended after %v and %d looks, want %v and 32", took, asked, 2*tailHeartbeat+tailLook)
		}
		if strings.Count(rec.Body.String(), ": watching") != 3 {
			t.Errorf("signs of life: %q", rec.Body.String())
		}
	})
}

func TestWatchersOfAWorkspaceLeaveRoomForOthers(t *testing.T) {
	all := mustMatcher(t, "", logstore.Scope{})
	for _, tt := range []struct {
		name  string
		who   func(i int) *access.Identity
		other access.Identity
		want  int
	}{
		{"workspace", func(int) *access.Identity { return &access.Identity{Organisation: "o", Workspace: "w"} }, access.Identity{Organisation: "o", Workspace: "v"}, maxOfWorkspace},
		{"organisation", func(i int) *access.Identity {
			return &access.Identity{Organisation: "o", Workspace: fmt.Sprint(i)}
		}, access.Identity{Organisation: "p", Workspace: "w"}, maxOfOrganisation},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tail := new(Tail)
			joined := 0
			var err error
			for ; err == nil && joined <= maxWatchers; joined++ {
				_, err = tail.join(tt.who(joined), all)
			}
			if e := apierr.From(err); joined-1 != tt.want || e.Kind != apierr.RateLimited || e.Code != "too_many_watchers" {
				t.Errorf("%d watchers joined, then %v; want %d and a refusal", joined-1, err, tt.want)
			}
			if _, err := tail.join(&tt.other, all); err != nil {
				t.Errorf("another %s may not watch: %v", tt.name, err)
			}
		})
	}
}
