package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/guardrails"
	"modelgate/internal/controlplane/organisations"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/workspaces"
	"modelgate/internal/identity/access"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

// checkGuardrail checks the shape of a guardrail like the route that creates one.
func checkGuardrail(g *settings.Guardrail) error {
	for i, c := range g.Checks {
		if err := checkShape[guardrails.Check](c); err != nil {
			return fmt.Errorf("checks[%d]: %w", i, err)
		}
	}
	if g.Actions != nil {
		if err := checkShape[guardrails.Actions](g.Actions); err != nil {
			return fmt.Errorf("actions: %w", err)
		}
	}
	return nil
}

// checkWorkspaces checks the workspaces of the file against the settings that the
// organisation will have, because a change of those can take rights from an unchanged
// workspace.
func (p *plan) checkWorkspaces() error {
	above := p.state.organisation.Settings
	if p.file.Organisation != nil {
		var err error
		if above, err = organisationSettings(p.file.Organisation.Settings); err != nil {
			return err
		}
	}
	for i := range p.file.Workspaces {
		w := &p.file.Workspaces[i]
		err := checkWorkspace(w)
		if err == nil {
			err = workspaces.CheckOverridden(json.RawMessage(orEmpty(w.Settings, "{}")), nil, &above)
		}
		if err != nil {
			return p.fault(fmt.Sprintf("workspaces[%d]", i), err)
		}
	}
	return nil
}

// checkWorkspace checks the objects of a workspace.
func checkWorkspace(w *settings.Workspace) error {
	if w.Defaults != nil {
		if err := checkShape[workspaces.Defaults](w.Defaults); err != nil {
			return fmt.Errorf("defaults: %w", err)
		}
	}
	var given map[string]any
	if err := json.Unmarshal(orEmpty(w.Settings, "{}"), &given); err != nil {
		return err
	}
	if _, err := workspaces.Settings(given); err != nil {
		return err
	}
	var switches access.RolePermissions
	if err := json.Unmarshal(orEmpty(w.SecuritySettings, "{}"), &switches); err != nil {
		return errors.New("security_settings: values must be true or false")
	}
	return route.CheckPermissions("security_settings", switches)
}

// organisationSettings decodes settings of the organisation.
func organisationSettings(o settings.Object) (out store.OrganisationSettings, err error) {
	d := json.NewDecoder(bytes.NewReader(orEmpty(o, "{}")))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil {
		return out, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return out, nil
}

// checkOrganisation replaces settings of the organisation by what the route that changes
// them would store. The lists of guardrails and exclusions are of other routes.
func (p *plan) checkOrganisation(o settings.Object, said *store.OrganisationSettings) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(orEmpty(o, "{}"), &fields); err != nil {
		return err
	}
	for _, name := range slices.Concat(guardrailFields, exclusionFields) {
		delete(fields, name)
	}
	if err := checkShape[organisations.SettingsInput](settings.Object(text(fields))); err != nil {
		return err
	}
	var in organisations.SettingsInput
	if err := json.Unmarshal(text(fields), &in); err != nil {
		return err
	}
	stored, err := in.Stored(p.CheckHost)
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		return errors.New(strings.TrimPrefix(e.Message, "settings."))
	}
	stored.InputGuardrails, stored.OutputGuardrails = said.InputGuardrails, said.OutputGuardrails
	stored.InputExclusions, stored.OutputExclusions = said.InputExclusions, said.OutputExclusions
	*said = stored
	return err
}

// checkShape returns an error if a JSON value does not decode as a T.
func checkShape[T any](raw settings.Object) error {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	known := huma.NewMapRegistry("#/$defs/", huma.DefaultSchemaNamer)
	schema, result := known.Schema(reflect.TypeFor[T](), true, ""), new(huma.ValidateResult)
	huma.Validate(known, schema, huma.NewPathBuffer(nil, 0), huma.ModeWriteToServer, v, result)
	if len(result.Errors) > 0 {
		return result.Errors[0]
	}
	return nil
}
