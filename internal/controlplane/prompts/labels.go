package prompts

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

func addLabels(a *route.API) {
	f := route.Family{Path: "/labels", Tag: "Prompts", Scopes: []string{"prompts"}, Resource: "prompt_label", Versioned: true}
	route.Add(a, f.Route(http.MethodPost, "", "create-label", "create", "Create a label for versions of prompts"), createLabel)
	route.Add(a, f.Route(http.MethodGet, "", "list-labels", "list", "List labels"), listLabels)
	route.Add(a, f.Route(http.MethodGet, "/{label}", "get-label", "read", "Read a label"), getLabel)
	route.Add(a, f.Route(http.MethodPut, "/{label}", "update-label", "update", "Change a label"), updateLabel)
	route.Add(a, f.Route(http.MethodDelete, "/{label}", "delete-label", "delete", "Delete a label and remove it from all versions"),
		deleteLabel)
}

type createLabelInput struct {
	Body struct {
		Name         string `json:"name" minLength:"1" maxLength:"255"`
		Organisation string `json:"organisation_id,omitempty" maxLength:"255" doc:"Id or slug of the caller's organisation; optional"`
		Workspace    string `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; without it an organisation key creates a label of the organisation"`
		Description  string `json:"description,omitempty" maxLength:"1024"`
		Color        string `json:"color_code,omitempty" maxLength:"32"`
	}
}

type createdLabel struct {
	ID string `json:"id"`
}

func createLabel(ctx context.Context, c *route.Caller, in *createLabelInput) (*createdLabel, error) {
	b := &in.Body
	if err := checkLabel(b.Name); err != nil {
		return nil, err
	}
	if err := c.CheckOrganisation(ctx, b.Organisation); err != nil {
		return nil, err
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

// place returns the workspace of a new object, empty for the organisation if the caller
// is not bound to a workspace.
func place(ctx context.Context, c *route.Caller, named string) (string, error) {
	if named == "" && c.Workspace == "" {
		return c.VisibleWorkspace(ctx, "")
	}
	w, err := c.InWorkspace(ctx, named)
	return w.ID, err
}

// free returns an error if another label has the same name where l is visible.
func free(ctx context.Context, tx *store.Tx, l store.PromptLabel) error {
	taken, err := tx.PromptLabelTaken(ctx, l.Organisation, l.Workspace, l.Name, l.ID)
	if err == nil && taken {
		return apierr.New(apierr.Conflict, "label %q already exists; choose another name", l.Name).WithParam("name")
	}
	return err
}

var (
	digits     = regexp.MustCompile(`^[0-9]+$`)
	unusual    = regexp.MustCompile(`[^A-Za-z0-9_-]`)
	impossible = regexp.MustCompile(`[@\s\pC]`)
)

// checkLabel checks the name of a label, which must differ from the other ways to name
// a version.
func checkLabel(name string) error {
	if err := route.CheckLength("name", name, 1, maxWord); err != nil {
		return err
	}
	switch {
	case strings.EqualFold(name, "latest") || strings.EqualFold(name, "default"):
		return route.Invalid("name", "must not be %q, which already names a version", name)
	case digits.MatchString(name):
		return route.Invalid("name", "must not be a number, which already names a version")
	case impossible.MatchString(name):
		return route.Invalid("name", "must not contain @, white space or control characters")
	case len(unusual.FindAllString(name, 2)) > 1:
		return route.Invalid("name", "must consist of letters, digits, _ and -, and at most one other character")
	}
	return nil
}

// Label is a label in a response.
type Label struct {
	ID           string     `json:"id"`
	Name         string     `json:"name"`
	Description  string     `json:"description"`
	Color        string     `json:"color_code"`
	Organisation *string    `json:"organisation_id" doc:"null for a built-in label"`
	Workspace    *string    `json:"workspace_id" doc:"null for a label of the organisation"`
	Universal    bool       `json:"is_universal"`
	Status       string     `json:"status"`
	CreatedAt    route.Time `json:"created_at"`
	UpdatedAt    route.Time `json:"last_updated_at"`
	Object       string     `json:"object"`
}

func toLabel(l store.PromptLabel) Label {
	return Label{l.ID, l.Name, l.Description, l.Color, route.OrNull(l.Organisation), route.OrNull(l.Workspace), l.Organisation == "",
		store.Active, route.Time(l.CreatedAt), route.Time(l.UpdatedAt), "label"}
}

// Searching are the parameters of lists of labels, which are never archived.
type Searching struct {
	Workspace string `query:"workspace_id" maxLength:"255"`
	Search    string `query:"search" maxLength:"255" doc:"Another name of name"`
	route.NamedPaging
}

func listLabels(ctx context.Context, c *route.Caller, in *Searching) (*route.List[Label], error) {
	workspace, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	found, total, err := c.DB().PromptLabels(ctx, c.Organisation, workspace, in.Search, in.Rows())
	return route.Listing(found, total, err, toLabel)
}

// NamedLabel identifies a label in a request.
type NamedLabel struct {
	Label     string `path:"label" maxLength:"255" doc:"Id"`
	Workspace string `query:"workspace_id" maxLength:"255"`
}

// find returns the label, and the workspace that the caller's view is limited to.
func (in *NamedLabel) find(ctx context.Context, c *route.Caller) (l store.PromptLabel, workspace string, err error) {
	if workspace, err = c.VisibleWorkspace(ctx, in.Workspace); err != nil {
		return l, "", err
	}
	l, err = c.DB().PromptLabel(ctx, c.Organisation, workspace, in.Label)
	return l, workspace, c.CheckFound(l.Workspace, l.ID, err, route.NotFound("label", "label", in.Label))
}

// findChangeable returns the label if the caller may change it: never a built-in label, and
// a label of the organisation only if the caller is not limited to a workspace.
func (in *NamedLabel) findChangeable(ctx context.Context, c *route.Caller) (store.PromptLabel, error) {
	l, workspace, err := in.find(ctx, c)
	switch {
	case err != nil:
		return l, err
	case l.Organisation == "":
		return l, apierr.New(apierr.Forbidden, "the label %q is built in and cannot be changed", l.Name).WithCode("AB03")
	case l.Workspace == "" && workspace != "":
		return l, apierr.New(apierr.Forbidden, "the label %q belongs to the organisation; only organisation keys and admins can change it", l.Name).WithCode("AB03")
	}
	return l, nil
}

func getLabel(ctx context.Context, c *route.Caller, in *NamedLabel) (*Label, error) {
	l, _, err := in.find(ctx, c)
	return route.ItemOf(l, err, toLabel)
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
	l, err := in.findChangeable(ctx, c)
	if err != nil {
		return nil, err
	}
	b := &in.Body
	err = c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.PromptLabel(ctx, l.Organisation, l.Workspace, l.ID) // another request may have changed it
		if err := c.CheckIfMatch(now.UpdatedAt, now.UpdatedAt, err); err != nil {
			return err
		}
		now.Name, now.Description, now.Color, now.UpdatedAt = b.Name.Or(now.Name), b.Description.Or(now.Description),
			b.Color.Or(now.Color), c.NextUpdateTime(now.UpdatedAt)
		if err := cmp.Or(checkLabel(now.Name), route.CheckLength("description", now.Description, 0, 1024),
			route.CheckLength("color_code", now.Color, 0, 32)); err != nil {
			return err
		}
		if err := free(ctx, tx, now); err != nil {
			return err
		}
		return tx.UpdatePromptLabel(ctx, now)
	})
	return &route.Empty{}, err
}

func deleteLabel(ctx context.Context, c *route.Caller, in *NamedLabel) (*route.Empty, error) {
	l, err := in.findChangeable(ctx, c)
	if err != nil {
		return nil, err
	}
	return &route.Empty{}, RemoveLabel(ctx, c, l)
}

// RemoveLabel removes a label, from the versions that have it too.
func RemoveLabel(ctx context.Context, c *route.Caller, l store.PromptLabel) error {
	return c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.PromptLabel(ctx, l.Organisation, l.Workspace, l.ID)
		if err := c.CheckIfMatch(now.UpdatedAt, now.UpdatedAt, err); err != nil {
			return err
		}
		return tx.DeletePromptLabel(ctx, l.ID)
	})
}

// PutLabel stores l, which a file describes, instead of before; nil is a new label. Another
// label that has the name must go in the same change.
func PutLabel(ctx context.Context, c *route.Caller, before *store.PromptLabel, l store.PromptLabel) error {
	if err := checkLabel(l.Name); err != nil {
		return err
	}
	write := (*store.Tx).UpdatePromptLabel
	if l.UpdatedAt = c.NextUpdateTime(l.UpdatedAt); before == nil {
		write, l.CreatedAt = (*store.Tx).CreatePromptLabel, c.Now
	}
	return c.Change(ctx, func(tx *store.Tx) error { return write(tx, ctx, l) })
}
