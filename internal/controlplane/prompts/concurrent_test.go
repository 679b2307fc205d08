package prompts_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"modelgate/internal/controlplane/prompts"
	"modelgate/internal/testing/routetest"
)

// TestChangesOfALabelDoNotMix changes two fields of a label at once, until one of the
// requests would have stored what it read before the other was done.
func TestChangesOfALabelDoNotMix(t *testing.T) {
	c := routetest.New(t, prompts.Add).Root()
	var label created
	c.Must("POST", "/labels", `{"name":"l","workspace_id":"default"}`, &label)
	path := "/labels/" + label.ID
	for i := range 100 {
		color, description := fmt.Sprintf("#%d", i), fmt.Sprintf("change %d", i)
		var wait sync.WaitGroup
		for _, body := range []string{`{"color_code":"` + color + `"}`, `{"description":"` + description + `"}`} {
			wait.Go(func() {
				if a := c.Call("PUT", path, body); a.Status != http.StatusOK {
					t.Errorf("PUT %s: %d %s", body, a.Status, a.Body)
				}
			})
		}
		wait.Wait()
		var got struct {
			Color       string `json:"color_code"`
			Description string
		}
		c.Must("GET", path, "", &got)
		if got.Color != color || got.Description != description {
			t.Fatalf("after both changes: %+v, want %s and %s", got, color, description)
		}
	}
}

// TestARenamedCollectionStaysArchived renames a collection while it is archived, until
// one of the renames would have stored the collection as it was before.
func TestARenamedCollectionStaysArchived(t *testing.T) {
	c := routetest.New(t, prompts.Add).Root()
	for range 100 {
		var made created
		c.Must("POST", "/collections", `{"name":"Team"}`, &made)
		path := "/collections/" + made.ID
		var wait sync.WaitGroup
		wait.Go(func() {
			if a := c.Call("PUT", path, `{"name":"Group"}`); a.Status != http.StatusOK && a.Status != http.StatusNotFound {
				t.Errorf("PUT: %d %s", a.Status, a.Body)
			}
		})
		if a := c.Call("DELETE", path, ""); a.Status != http.StatusOK {
			t.Errorf("DELETE: %d %s", a.Status, a.Body)
		}
		wait.Wait()
		if a := c.Call("GET", path, ""); a.Status != http.StatusNotFound {
			t.Fatalf("the archived collection: %d %s", a.Status, a.Body)
		}
	}
}
