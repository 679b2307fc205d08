package organisations

import (
	"context"
	"maps"
	"net/url"
	"reflect"
	"slices"

	"modelgate/internal/base/egress"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// Settings are an organisation's settings in a response.
type Settings struct {
	Security           access.RolePermissions `json:"security_settings" doc:"Permissions of workspace members and managers; the owner and admins have all permissions"`
	Overridable        []access.Section       `json:"overridable_sections" doc:"Sections of security_settings that workspaces may set themselves"`
	KeyTTL             *int64                 `json:"user_api_key_ttl"`
	KeyMaxTTL          *int64                 `json:"user_api_key_max_ttl"`
	KeyCount           *int64                 `json:"user_api_key_count"`
	Logging            *string                `json:"request_logging" doc:"Null for the installation's setting"`
	LoggingOverridable bool                   `json:"request_logging_override"`
	BlockInlineConfig  bool                   `json:"block_inline_config"`
	FailClosed         bool                   `json:"fail_closed"`
	DeniedFields       []string               `json:"denied_fields"`
	Egress             *egress.Policy         `json:"egress_policy" doc:"Allowed destinations of requests; null allows all"`

	SecondFactor bool `json:"require_second_factor"`
	Passwords    bool `json:"password_sign_in"`

	Directory *store.DirectorySettings `json:"directory" doc:"Rules for the directory that writes users and groups by SCIM; null for the defaults"`

	JWT *store.JWTSettings `json:"jwt" doc:"Issuer of JSON Web Tokens that are accepted instead of keys; null for none"`
}

func toResponse(s *store.OrganisationSettings) Settings {
	out := Settings{
		Security: s.Security.Effective(), Overridable: []access.Section{}, KeyTTL: s.TTL, KeyMaxTTL: s.MaxTTL, KeyCount: s.Count,
		LoggingOverridable: s.LoggingOverridable,
		BlockInlineConfig:  s.BlockInlineConfig, FailClosed: s.FailClosed, DeniedFields: []string{}, JWT: s.JWT, Egress: s.Egress,
		Directory: s.Directory, SecondFactor: s.RequireSecondFactor, Passwords: !s.NoPasswords,
	}
	out.Overridable = append(out.Overridable, s.Overridable...)
	out.DeniedFields = append(out.DeniedFields, s.DeniedFields...)
	if s.Logging != "" {
		out.Logging = &s.Logging
	}
	return out
}

// SettingsInput are the settings that a request changes.
type SettingsInput struct {
	Security           route.Optional[access.RolePermissions] `json:"security_settings,omitempty" doc:"Permissions that are not named stay unchanged; null resets all to their defaults"`
	Overridable        route.Optional[[]access.Section]       `json:"overridable_sections,omitempty" maxItems:"100"`
	KeyTTL             route.Optional[int64]                  `json:"user_api_key_ttl,omitempty" minimum:"1" maximum:"3153600000" doc:"Default lifetime of user keys, in seconds"`
	KeyMaxTTL          route.Optional[int64]                  `json:"user_api_key_max_ttl,omitempty" minimum:"1" maximum:"3153600000" doc:"Maximum lifetime of user keys, in seconds"`
	KeyCount           route.Optional[int64]                  `json:"user_api_key_count,omitempty" minimum:"-1" maximum:"1000000" doc:"Maximum number of keys of a user in a workspace; -1 for no limit"`
	Logging            route.Optional[string]                 `json:"request_logging,omitempty" enum:"full,metadata,none" doc:"Logging level; null for the installation's setting"`
	LoggingOverridable route.Optional[bool]                   `json:"request_logging_override,omitempty" doc:"Lets workspaces set another logging level, and keys a higher one"`
	BlockInlineConfig  route.Optional[bool]                   `json:"block_inline_config,omitempty" doc:"Rejects inline configs"`
	FailClosed         route.Optional[bool]                   `json:"fail_closed,omitempty" doc:"Makes every error of a check a failure, in all saved guardrails, whatever their failOnError says"`
	DeniedFields       route.Optional[[]string]               `json:"denied_fields,omitempty" maxItems:"100" maxLength:"128" doc:"Fields that log exports leave out"`
	Egress             route.Optional[egress.Policy]          `json:"egress_policy,omitempty" doc:"Allowed destinations of requests; replaces the policy, and null allows all"`

	SecondFactor route.Optional[bool] `json:"require_second_factor,omitempty" doc:"Lets members sign in only with two factors; setting it ends the sessions that have one. Keys are not affected"`
	Passwords    route.Optional[bool] `json:"password_sign_in,omitempty" doc:"Whether members sign in with passwords. It can be false once an owner can sign in another way"`

	Directory route.Optional[store.DirectorySettings] `json:"directory,omitempty" doc:"Rules for the directory that writes users and groups by SCIM; replaces them, and null has the defaults"`

	JWT route.Optional[store.JWTSettings] `json:"jwt,omitempty" doc:"Issuer of JSON Web Tokens that are accepted instead of keys; replaces the setting"`
}

type updateInput struct {
	Body struct {
		Name     route.Optional[string] `json:"name,omitempty" minLength:"1" maxLength:"255"`
		Settings SettingsInput          `json:"settings,omitempty"`
	}
}

func (f *family) update(ctx context.Context, c *route.Caller, in *updateInput) (*route.Empty, error) {
	if in.Body.Name.Null {
		return nil, route.Invalid("name", "cannot be cleared")
	}
	if s := &in.Body.Settings; s.SecondFactor.Set || s.Passwords.Set || s.JWT.Set { // who may sign in, and how
		if err := c.CheckFresh(); err != nil {
			return nil, err
		}
	}
	return change(ctx, c, func(tx *store.Tx, o *store.Organisation) error {
		before := o.Settings
		o.Name = in.Body.Name.Or(o.Name)
		if err := in.Body.Settings.trust(c, &o.Settings, f.checkHost); err != nil {
			return err
		}
		if err := in.Body.Settings.apply(&o.Settings); err != nil {
			return err
		}
		return setSignIn(ctx, tx, before, o)
	})
}

// checkSignIn returns an error if a complete change of settings changes who may sign in, and
// how, and c may not do that.
func checkSignIn(c *route.Caller, before, after store.OrganisationSettings) error {
	trusts := !reflect.DeepEqual(before.JWT, after.JWT)
	if !trusts && before.RequireSecondFactor == after.RequireSecondFactor && before.NoPasswords == after.NoPasswords {
		return nil
	}
	if err := c.CheckFresh(); err != nil || !trusts || after.JWT == nil {
		return err
	}
	return checkGrants(c)
}

// setSignIn checks and applies a change of how members sign in: somebody must be able to, and
// the sessions of before must not outlive a stricter rule.
func setSignIn(ctx context.Context, tx *store.Tx, before store.OrganisationSettings, o *store.Organisation) error {
	if !before.NoPasswords {
		if err := people.CheckNoPasswords(ctx, tx.Queries, o); err != nil {
			return err
		}
	}
	if o.Settings.RequireSecondFactor && !before.RequireSecondFactor {
		return tx.EndWeakSessions(ctx, o.ID)
	}
	return nil
}

// Stored returns the settings that in describes completely, as a file does, in stored form.
func (in *SettingsInput) Stored(checkHost func(raw string) (*url.URL, error)) (s store.OrganisationSettings, err error) {
	if in.JWT.Set && !in.JWT.Null {
		checked, err := in.JWT.Value.Checked("settings.jwt", checkHost)
		if err != nil {
			return s, err
		}
		s.JWT = &checked
	}
	return s, in.apply(&s)
}

// apply applies the requested changes.
func (in *SettingsInput) apply(s *store.OrganisationSettings) error {
	if err := in.applyPermissions(s); err != nil {
		return err
	}
	for _, n := range []struct {
		given route.Optional[int64]
		to    **int64
	}{{in.KeyTTL, &s.TTL}, {in.KeyMaxTTL, &s.MaxTTL}, {in.KeyCount, &s.Count}} {
		if n.given.Set {
			*n.to = nil
		}
		if n.given.Set && !n.given.Null {
			*n.to = &n.given.Value
		}
	}
	if s.TTL != nil && s.MaxTTL != nil && *s.TTL > *s.MaxTTL {
		return route.Invalid("settings.user_api_key_ttl", "must be at most user_api_key_max_ttl")
	}
	s.Logging, s.LoggingOverridable = in.Logging.Or(s.Logging), in.LoggingOverridable.Or(s.LoggingOverridable)
	if in.SecondFactor.Set {
		s.RequireSecondFactor = in.SecondFactor.Value
	}
	if in.Passwords.Set {
		s.NoPasswords = !in.Passwords.Null && !in.Passwords.Value
	}
	s.BlockInlineConfig, s.FailClosed = in.BlockInlineConfig.Or(s.BlockInlineConfig), in.FailClosed.Or(s.FailClosed)
	s.DeniedFields = in.DeniedFields.Or(s.DeniedFields)
	if in.Directory.Set {
		s.Directory = nil
	}
	if in.Directory.Set && !in.Directory.Null {
		s.Directory = &in.Directory.Value
	}
	if in.Egress.Set {
		var err error
		s.Egress, err = limits.Egress("settings.egress_policy", &in.Egress.Value)
		return err
	}
	return nil
}

// applyPermissions changes the permissions of roles.
func (in *SettingsInput) applyPermissions(s *store.OrganisationSettings) error {
	if err := route.CheckPermissions("settings.security_settings", in.Security.Value); err != nil {
		return err
	}
	for _, section := range in.Overridable.Value {
		if !slices.Contains(access.Sections(), section) {
			return route.Invalid("settings.overridable_sections", "must contain only %v, not %.60q", access.Sections(), section)
		}
	}
	s.Overridable = in.Overridable.Or(s.Overridable)
	if !in.Security.Set {
		return nil
	}
	before := s.Security
	s.Security = access.RolePermissions{}
	if !in.Security.Null {
		maps.Copy(s.Security, before)
		maps.Copy(s.Security, in.Security.Value)
	}
	return nil
}
