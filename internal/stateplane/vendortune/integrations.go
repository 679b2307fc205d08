package vendortune

import (
	"encoding/json"
	"strconv"

	"modelgate/internal/base/secret"
	"modelgate/internal/format/grammar"
	"modelgate/internal/format/jsonedit"
)

// integration is a service that follows the training: its type, and an object named after
// the type.
type integration struct {
	Type string
	run  run
}

// run is how a service of experiments names the training. The key is not of the
// specification: vendors other than OpenAI take it with each job.
type run struct {
	Project string        `json:"project,omitempty"`
	Name    string        `json:"name,omitempty"`
	Entity  string        `json:"entity,omitempty"`
	Tags    []string      `json:"tags,omitempty"`
	APIKey  secret.String `json:"-"`
}

// UnmarshalJSON reads an integration that has been checked.
func (i *integration) UnmarshalJSON(b []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return err
	}
	if err := json.Unmarshal(members["type"], &i.Type); err != nil {
		return err
	}
	if err := json.Unmarshal(members[i.Type], &i.run); err != nil {
		return err
	}
	var key struct {
		APIKey string `json:"api_key"`
	}
	if err := json.Unmarshal(members[i.Type], &key); err != nil {
		return err
	}
	i.run.APIKey = secret.New(key.APIKey)
	return nil
}

// checkIntegration returns what is wrong with an integration, or nil.
func checkIntegration(v jsonedit.Value) *grammar.Fault {
	if f := integrationRule.Check(jsonedit.NewCursor(v.Raw())); f != nil {
		return f
	}
	typ := v.TextOf("type")
	if typ == "type" { // its object would be this member
		return (&grammar.Fault{Code: grammar.CodeValue, Want: "the name of a service"}).In("type")
	}
	of, ok := v.Get(typ)
	if !ok {
		return (&grammar.Fault{Code: grammar.CodeMissing, Want: runRule.Expected()}).In(typ)
	}
	if f := runRule.Check(jsonedit.NewCursor(of.Raw())); f != nil {
		return f.In(typ)
	}
	return nil
}

var (
	integrationRule = grammar.Object{What: "an object with a type, and an object named after it", Members: []grammar.Member{
		{Name: "type", Rule: grammar.Text{NotEmpty: true, Chars: 64}, Required: true},
	}}
	runRule = grammar.Object{What: "an object with project, name, entity and tags", Members: []grammar.Member{
		{Name: "project", Rule: grammar.Text{NotEmpty: true}},
		{Name: "name", Rule: grammar.Text{}},
		{Name: "entity", Rule: grammar.Text{}},
		{Name: "tags", Rule: grammar.List{What: "strings", Each: grammar.Text{}}},
		{Name: "api_key", Rule: grammar.Text{NotEmpty: true}},
	}}
)

// shownIntegrations returns the integrations without their keys.
func (in *Input) shownIntegrations() json.RawMessage {
	list := []map[string]any{}
	for _, i := range in.integrations {
		list = append(list, map[string]any{"type": i.Type, i.Type: i.run})
	}
	b, err := json.Marshal(list)
	if err != nil { // strings always encode
		return nil
	}
	return b
}

// Stored returns the body as it was sent, without the keys of services.
func (in *Input) Stored() ([]byte, error) {
	if len(in.integrations) == 0 {
		return in.body, nil
	}
	var d jsonedit.Doc
	if err := d.Scan(in.body); err != nil {
		return nil, err
	}
	return d.Apply(nil, jsonedit.Edit{Name: "integrations", Value: in.shownIntegrations()}), nil
}

// tracker is where a vendor has the parts of its only integration, as paths in the body.
// An empty path is a part that it lacks.
type tracker struct {
	project, name, entity, key string
	enabled                    string // set to true
}

const wandb = "wandb"

// checkIntegrations returns an error if the vendor can't report to a service as asked.
func (v *Vendor) checkIntegrations(in *Input) error {
	if v.trackers || len(in.integrations) == 0 {
		return nil
	}
	if v.tracker == nil {
		return refuse("integrations", "provider %q has no integrations: leave them out", v.id)
	}
	if len(in.integrations) > 1 {
		return refuse("integrations", "provider %q has one integration at most, not %d", v.id, len(in.integrations))
	}
	i, path := in.integrations[0], "integrations[0]."+wandb
	switch {
	case i.Type != wandb:
		return refuse("integrations[0].type", "provider %q has the integration %q only", v.id, wandb)
	case len(i.run.Tags) > 0:
		return refuse(path+".tags", "provider %q has no tags in its integration: leave them out", v.id)
	case i.run.Name != "" && v.tracker.name == "":
		return refuse(path+".name", "provider %q has no name in its integration: leave it out", v.id)
	case i.run.Entity != "" && v.tracker.entity == "":
		return refuse(path+".entity", "provider %q has no entity in its integration: leave it out", v.id)
	case i.run.APIKey.Empty():
		return refuse(path+".api_key", "provider %q needs the key of the service in %s", v.id, strconv.Quote(path+".api_key"))
	}
	return nil
}

// setIntegration writes the integration of a body that has been checked.
func (s *session) setIntegration(o object, in *Input) {
	if len(in.integrations) == 0 {
		return
	}
	r := in.integrations[0].run
	o.setText(s.tracker.project, r.Project)
	o.setText(s.tracker.name, r.Name)
	o.setText(s.tracker.entity, r.Entity)
	o.setText(s.tracker.key, r.APIKey.Reveal())
	if s.tracker.enabled != "" {
		o.set(s.tracker.enabled, true)
	}
}
