package workspaces_test

import (
	"net/http"
	"testing"

	"modelgate/internal/controlplane/integrations"
	"modelgate/internal/controlplane/prompts"
	"modelgate/internal/controlplane/providers"
	"modelgate/internal/controlplane/workspaces"
	"modelgate/internal/testing/routetest"
)

// What every workspace is granted comes with a new one, and goes with it: it
// does not hold the workspace.
func TestANewWorkspaceGetsWhatEveryWorkspaceGets(t *testing.T) {
	b := routetest.New(t, workspaces.Add, integrations.Add, providers.Add)
	c := b.Root()
	var made struct{ Slug string }
	c.Must("POST", "/integrations", `{"name":"main","ai_provider_id":"openai","key":"sk-1234567890"}`, &made)
	c.Must("PUT", "/integrations/"+made.Slug+"/workspaces", `{"workspaces":[],"override_existing_workspace_access":true,"global_workspace_access":{"enabled":true}}`, nil)
	var w item
	c.Must("POST", "/workspaces", `{"name":"a"}`, &w)
	var list struct{ Total int }
	if c.Must("GET", "/providers?workspace_id="+w.ID, "", &list); list.Total != 1 {
		t.Errorf("a new workspace has %d providers, want that of the grant", list.Total)
	}
	if a := c.Call("DELETE", "/workspaces/"+w.ID, `{"name":"a"}`); a.Status != http.StatusOK {
		t.Errorf("archiving it: %d %s", a.Status, a.Body)
	}
	if left := b.Query("SELECT status FROM providers WHERE workspace_id = '" + w.ID + "' AND status <> 'archived'"); len(left) != 0 {
		t.Errorf("its providers are %v", left)
	}
}

func TestAWorkspaceThatHoldsAPromptIsNotArchivedByAccident(t *testing.T) {
	b := routetest.New(t, workspaces.Add, prompts.Add)
	c := b.Root()
	var w item
	c.Must("POST", "/workspaces", `{"name":"a"}`, &w)
	var folders struct {
		Total int
		Data  []struct {
			IsDefault bool `json:"is_default"`
		}
	}
	if c.Must("GET", "/collections?workspace_id="+w.ID, "", &folders); folders.Total != 1 || !folders.Data[0].IsDefault {
		t.Errorf("collections of a new workspace: %+v, want the default one", folders)
	}
	c.Must("POST", "/prompts", `{"name":"p","string":"x","workspace_id":"`+w.ID+`"}`, nil)
	if a := c.Call("DELETE", "/workspaces/"+w.ID, `{"name":"a"}`); a.Status != http.StatusConflict {
		t.Errorf("with a prompt: %d %s", a.Status, a.Body)
	}
	if a := c.Call("DELETE", "/workspaces/"+w.ID, `{"name":"a","force_delete":true}`); a.Status != http.StatusOK {
		t.Errorf("by force: %d %s", a.Status, a.Body)
	}
}
