package prompts

import (
	"context"
	"net/http"
	"regexp"
	"strings"

	"modelgate/internal/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

func addLabels(a *route.API) {
	f := route.Family{Path: "/labels", Tag: "Prompts", Scopes: []string{"prompts"}, Resource: "prompt_label"}
	route.Add(a, f.Route(http.MethodPost, "", "create-label", "create", "Make a label for versions of prompts"), createLabel)
	route.Add(a, f.Route(http.MethodGet, "", "list-labels", "list", "List labels"), listLabels)
	route.Add(a, f.Route(http.MethodGet, "/{label}", "get-label", "read", "Read a label"), getLabel)
	route.Add(a, f.Route(http.MethodPut, "/{label}", "update-label", "update", "Change a label"), updateLabel)
	route.Add(a, f.Route(http.MethodDelete, "/{label}", "delete-label", "delete", "Remove a label, also from the versions that have it"), deleteLabel)
}

type createLabelInput struct {
	Body struct {
		Name         string `json:"name" minLength:"1" maxLength:"255"`
		Organisation string `json:"organisation_id,omitempty" maxLength:"255" doc:"The caller's own; it needs not be said"`
		Workspace    string `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; without one the label is for the organisation, if the caller is"`
		Description  string `json:"description,omitempty" maxLength:"1024"`
		Color        string `json:"color_code,omitempty" maxLength:"32"`
	}
}

type createdLabel struct {
	ID string `json:"id"`
}

func createLabel(ctx context.Context, c *route.Caller, in *createLabelInput) (*createdLabel, error) {
	b := &in.Body
	if err := CheckLabel(b.Name); err != nil {
		return nil, err
	}
	if b.Organisation != "" && b.Organisation != c.Organisation {
		return nil, route.Missing("organisation_id", "organisation", b.Organisation)
	}
	workspace, err := place(ctx, c, b.Workspace)
	if err != nil {
		return nil, err
	}
	l := store.PromptLabel{ID: c.NewID(), Organisation: c.Organisation, Workspace: workspace, Name: b.Name,
		Description: b.Description, Color: b.Color, CreatedAt: c.Now, UpdatedAt: c.Now}
	c.SetAuditSubject(workspace, l.ID)
	err = c.Change(ctx, func(tx *store.Tx) error {
		if err := free(ctx, tx, l); err != nil {
			return err
		}
		return tx.CreatePromptLabel(ctx, l)
	})
	return &createdLabel{l.ID}, err
}

// place returns the workspace that something new belongs to: empty is the whole
// organisation, for callers who belong to no single workspace of it.
func place(ctx context.Context, c *route.Caller, named string) (string, error) {
	if named == "" && c.Workspace == "" {
		return c.VisibleWorkspace(ctx, "")
	}
	w, err := c.InWorkspace(ctx, named)
	return w.ID, err
}

// free refuses a name that another label has where this one is seen.
func free(ctx context.Context, tx *store.Tx, l store.PromptLabel) error {
	taken, err := tx.PromptLabelTaken(ctx, l.Organisation, l.Workspace, l.Name, l.ID)
	if err == nil && taken {
		return apierr.New(apierr.Conflict, "there is a label %q already", l.Name).WithParam("name")
	}
	return err
}

var (
	digits     = regexp.MustCompile(`^[0-9]+$`)
	unusual    = regexp.MustCompile(`[^A-Za-z0-9_-]`)
	impossible = regexp.MustCompile(`[@\s\pC]`)
)

// CheckLabel checks a label's name: it must differ from the other ways to
// name a version.
func CheckLabel(name string) error {
	switch {
	case name == "" || len(name) > maxWord:
		return route.Invalid("name", "has 1 to %d bytes", maxWord)
	case strings.EqualFold(name, "latest") || strings.EqualFold(name, "default"):
		return route.Invalid("name", "can't be %q, which means a version already", name)
	case digits.MatchString(name):
		return route.Invalid("name", "can't be a number, which means a version already")
	case impossible.MatchString(name):
		return route.Invalid("name", "holds no @, white space or control characters")
	case len(unusual.FindAllString(name, 2)) > 1:
		return route.Invalid("name", "holds letters, digits, _ and -, and at most one other character")
	}
	return nil
}

// Label is a label as it is shown.
type Label struct {
	ID           string     `json:"id"`
	Name         string     `json:"name"`
	Description  string     `json:"description"`
	Color        string     `json:"color_code"`
	Organisation *string    `json:"organisation_id" doc:"null for a label that everybody has"`
	Workspace    *string    `json:"workspace_id" doc:"null for a label of the whole organisation"`
	Universal    bool       `json:"is_universal"`
	Status       string     `json:"status"`
	CreatedAt    route.Time `json:"created_at"`
	UpdatedAt    route.Time `json:"last_updated_at"`
	Object       string     `json:"object"`
}

func labelShown(l store.PromptLabel) Label {
	return Label{l.ID, l.Name, l.Description, l.Color, route.OrNull(l.Organisation), route.OrNull(l.Workspace), l.Organisation == "",
		store.Active, route.Time(l.CreatedAt), route.Time(l.UpdatedAt), "label"}
}

// Searching is what lists of labels and collections take.
type Searching struct {
	Workspace string `query:"workspace_id" maxLength:"255"`
	Search    string `query:"search" maxLength:"255" doc:"Case-sensitive substring of the name"`
	route.Paging
}

func listLabels(ctx context.Context, c *route.Caller, in *Searching) (*route.List[Label], error) {
	workspace, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	found, total, err := c.DB().PromptLabels(ctx, c.Organisation, workspace, in.Search, in.Rows())
	return route.Listing(found, total, err, labelShown)
}

// NamedLabel is how a request names a label.
type NamedLabel struct {
	Label     string `path:"label" maxLength:"255" doc:"Id"`
	Workspace string `query:"workspace_id" maxLength:"255"`
}

// find returns the label, and the workspace that the caller's sight is limited to.
func (in *NamedLabel) find(ctx context.Context, c *route.Caller) (l store.PromptLabel, workspace string, err error) {
	if workspace, err = c.VisibleWorkspace(ctx, in.Workspace); err != nil {
		return l, "", err
	}
	l, err = c.DB().PromptLabel(ctx, c.Organisation, workspace, in.Label)
	return l, workspace, c.CheckFound(l.Workspace, l.ID, err, route.NotFound("label", "label", in.Label))
}

// own is find for who changes the label: those who see more than its owner's
// place alone may not.
func (in *NamedLabel) own(ctx context.Context, c *route.Caller) (store.PromptLabel, error) {
	l, workspace, err := in.find(ctx, c)
	switch {
	case err != nil:
		return l, err
	case l.Organisation == "":
		return l, apierr.New(apierr.Forbidden, "the label %q is built in and cannot be changed", l.Name).WithCode("AB03")
	case l.Workspace == "" && workspace != "":
		return l, apierr.New(apierr.Forbidden, "the label %q is the organisation's; its own keys and admins change it", l.Name).WithCode("AB03")
	}
	return l, nil
}

func getLabel(ctx context.Context, c *route.Caller, in *NamedLabel) (*Label, error) {
	l, _, err := in.find(ctx, c)
	return route.Shown(l, err, labelShown)
}

type updateLabelInput struct {
	NamedLabel
	Body struct {
		Name        route.Optional[string] `json:"name,omitempty"`
		Description route.Optional[string] `json:"description,omitempty"`
		Color       route.Optional[string] `json:"color_code,omitempty"`
	}
}

func updateLabel(ctx context.Context, c *route.Caller, in *updateLabelInput) (*route.Empty, error) {
	l, err := in.own(ctx, c)
	if err != nil {
		return nil, err
	}
	b := &in.Body
	l.Name, l.Description, l.Color, l.UpdatedAt = b.Name.Or(l.Name), b.Description.Or(l.Description), b.Color.Or(l.Color), c.Now
	if err := CheckLabel(l.Name); err != nil {
		return nil, err
	}
	if len(l.Description) > 1024 || len(l.Color) > 32 {
		return nil, route.Invalid("description", "has at most 1024 bytes, and color_code 32")
	}
	err = c.Change(ctx, func(tx *store.Tx) error {
		if err := free(ctx, tx, l); err != nil {
			return err
		}
		return tx.UpdatePromptLabel(ctx, l)
	})
	return &route.Empty{}, err
}

func deleteLabel(ctx context.Context, c *route.Caller, in *NamedLabel) (*route.Empty, error) {
	l, err := in.own(ctx, c)
	if err != nil {
		return nil, err
	}
	err = c.Change(ctx, func(tx *store.Tx) error { return tx.DeletePromptLabel(ctx, l.ID) })
	return &route.Empty{}, err
}
