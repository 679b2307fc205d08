package route

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

func TestRoutesAreDescribedWithTheFirstRequest(t *testing.T) {
	a := New(Deps{})
	Add(a, Route{Method: "GET", Path: "/things/{thing}", Name: "get-thing", Open: true}, func(_ context.Context, _ *Caller, in *struct {
		Thing string `path:"thing"`
	}) (*string, error) {
		return &in.Thing, nil
	})
	request := func() *http.Request { return httptest.NewRequest("GET", "/v1/things/a", nil) }
	if !a.Handles(request()) || a.handlers["GET /v1/things/{thing}"] != nil {
		t.Fatal("a route that nobody has asked for is described, or not there")
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			w := httptest.NewRecorder()
			if a.ServeHTTP(w, request()); w.Code != http.StatusOK || w.Body.String() != "\"a\"\n" {
				t.Errorf("status %d, %q", w.Code, w.Body)
			}
		})
	}
	group.Wait()
}
