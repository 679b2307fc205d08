package prompts

import (
	"context"
	"encoding/json"
	"strconv"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// full is a version of a prompt with its content.
type full struct {
	Item
	String      string     `json:"string"`
	Parameters  route.JSON `json:"parameters"`
	VirtualKey  string     `json:"virtual_key"`
	Functions   route.JSON `json:"functions"`
	Tools       route.JSON `json:"tools"`
	ToolChoice  route.JSON `json:"tool_choice"`
	Metadata    route.JSON `json:"template_metadata"`
	Raw         int        `json:"is_raw_template"`
	Number      int64      `json:"prompt_version"`
	VersionID   string     `json:"prompt_version_id"`
	State       string     `json:"prompt_version_status"`
	Description string     `json:"prompt_version_description"`
	Label       *string    `json:"prompt_version_label_id"`
	Published   bool       `json:"is_published" doc:"Whether this is the version used by requests that name none"`
}

func toFull(p store.Prompt, v store.PromptVersion) (*full, error) {
	s, err := shownState(v)
	if err != nil {
		return nil, err
	}
	out := &full{
		Item: toResponse(p), String: s.String, Parameters: orElse(s.Parameters, "{}"), VirtualKey: s.Provider,
		Functions: orElse(s.Functions, "null"), Tools: orElse(s.Tools, "null"), ToolChoice: orElse(s.ToolChoice, "null"),
		Metadata: orElse(s.metadata, "{}"), Number: v.Number, VersionID: v.ID, State: store.Active, Description: v.Description,
		Label: route.OrNull(v.Label), Published: v.Number == p.Published,
	}
	if out.Model = s.Model; s.Raw {
		out.Raw = 1
	}
	return out, nil
}

func orElse(raw json.RawMessage, other string) route.JSON {
	if len(raw) == 0 {
		return route.JSON(other)
	}
	return route.JSON(raw)
}

// version returns the version of a prompt or partial that which names: an id, or one of
// the forms of package prompt.
func version(ctx context.Context, q store.Queries, p store.Prompt, which string) (v store.PromptVersion, err error) {
	number, notNumber := strconv.ParseInt(which, 10, 64)
	switch {
	case which == "" || which == "default":
		v, err = q.PromptVersion(ctx, p.ID, p.Published)
	case which == "latest":
		v, err = q.LatestPromptVersion(ctx, p.ID)
	case notNumber == nil:
		v, err = q.PromptVersion(ctx, p.ID, number)
	default:
		if v, err = q.LabelledPromptVersion(ctx, p.ID, which); apierr.IsNotFound(err) {
			v, err = q.PromptVersionByID(ctx, p.ID, which)
		}
	}
	if apierr.IsNotFound(err) {
		return v, apierr.New(apierr.NotFound, "version %.60[3]q of the %[1]s %[2]q not found", p.Kind, p.Slug, which).WithParam("version")
	}
	return v, err
}

// Version is a version in a list.
type Version struct {
	ID          string     `json:"id"`
	Prompt      string     `json:"prompt_id"`
	Template    string     `json:"prompt_template"`
	Number      int64      `json:"prompt_version"`
	Description string     `json:"prompt_description"`
	Model       string     `json:"model"`
	Label       *string    `json:"label_id"`
	Published   bool       `json:"is_published"`
	CreatedBy   string     `json:"created_by"`
	CreatedAt   route.Time `json:"created_at"`
	Status      string     `json:"status"`
	Object      string     `json:"object"`
}

type versionsInput struct {
	Named
	route.Paging
}

func versions(ctx context.Context, c *route.Caller, in *versionsInput) (*route.List[Version], error) {
	row, err := find(ctx, c, store.KindPrompt, in.Prompt, in.Workspace)
	if err != nil {
		return nil, err
	}
	found, total, err := c.DB().PromptVersions(ctx, row.ID, in.Rows())
	if err != nil {
		return nil, err
	}
	return route.ConvertList(found, total, func(v store.PromptVersion) (Version, error) {
		s, err := shownState(v)
		return Version{v.ID, row.ID, s.String, v.Number, v.Description, v.Model, route.OrNull(v.Label), v.Number == row.Published,
			v.CreatedBy, route.Time(v.CreatedAt), store.Active, "prompt_version"}, err
	})
}

// OfVersion identifies a version of a prompt in a request.
type OfVersion struct {
	Named
	Version string `path:"version" maxLength:"255" doc:"Id or number"`
}

func getVersion(ctx context.Context, c *route.Caller, in *OfVersion) (*full, error) {
	row, err := find(ctx, c, store.KindPrompt, in.Prompt, in.Workspace)
	if err != nil {
		return nil, err
	}
	v, err := version(ctx, c.DB(), row, in.Version)
	if err != nil {
		return nil, err
	}
	return toFull(row, v)
}

type labelInput struct {
	OfVersion
	Body struct {
		Label route.Optional[string] `json:"label_id,omitempty" doc:"Id of a label; null removes the version's label"`
	}
}

func label(ctx context.Context, c *route.Caller, in *labelInput) (*route.Empty, error) {
	if !in.Body.Label.Set {
		return nil, route.Invalid("label_id", "is required: nothing else of a version can be changed")
	}
	row, err := find(ctx, c, store.KindPrompt, in.Prompt, in.Workspace)
	if err != nil {
		return nil, err
	}
	err = c.Change(ctx, func(tx *store.Tx) error {
		now, err := fresh(ctx, c, tx, row)
		if err != nil {
			return err
		}
		v, err := version(ctx, tx.Queries, now, in.Version)
		if err != nil {
			return err
		}
		id := in.Body.Label.Value
		if id != "" {
			if _, err := tx.PromptLabel(ctx, row.Organisation, row.Workspace, id); apierr.IsNotFound(err) {
				return route.Missing("label_id", "label", id)
			} else if err != nil {
				return err
			}
		}
		if err := tx.LabelPromptVersion(ctx, row.ID, v.ID, id); err != nil {
			return err
		}
		return tx.UpdatePrompt(ctx, now)
	})
	return &route.Empty{}, err
}
