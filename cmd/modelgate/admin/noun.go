package admin

import (
	"strings"

	"github.com/spf13/pflag"

	"modelgate/internal/identity/access"
)

// noun is a kind of object.
type noun struct {
	name    string
	aliases []string
	about   string
	one     string // how messages call one object

	// find is the query parameter of the noun's list by which names are looked up. Empty looks
	// through the whole list.
	find string
	// uuids is true if the routes of one object accept nothing but its id.
	uuids bool
	verbs []verb
}

// verb is what can be done with objects of a noun.
type verb struct {
	name string
	op   string // the route, by its name

	does    string   // replaces the summary of the route
	columns string   // of tables; see [parseColumns]
	rows    string   // member of the response that has the list; empty is data
	arg     string   // member of the body that may be given as an argument
	secret  string   // member of the response that is shown once
	asks    string   // the question before it is done, with %s for the object
	named   string   // member of the body with the name of the object, as a confirmation
	idOf    string   // parameter whose value is the noun of the parameter id, without its s
	since   string   // default of --since, for a list that needs a time
	example []string // arguments; at least one

	// grants is the type of the keys that are created: --scopes all has every scope that these can
	// have. Empty has no such form.
	grants access.KeyType
	// form is the member of a multipart form with the content of a file.
	form string
	// shows is true for requests other than GET whose response is what the user wants to see.
	shows bool
	// raw responses are the content of a file, and are printed as they are.
	raw bool
	// deleted is true if ids of a table that no object has are shown as those of deleted ones.
	deleted bool
}

// column is a column of tables.
type column struct {
	head string
	path []string // of the value in an object
	kind string   // how the value is written; see [column.cell]
	wide bool     // only in wide tables
}

// parseColumns reads columns separated by spaces, each HEAD=path:kind. Without a head, it is
// the last name of the path; $0 in it is the first argument of the call. Columns after "|" are in wide tables only.
func parseColumns(text string) []column {
	var list []column
	wide := false
	for word := range strings.FieldsSeq(text) {
		if word == "|" {
			wide = true
			continue
		}
		head, rest, named := strings.Cut(word, "=")
		if !named {
			rest = word
		}
		path, kind, _ := strings.Cut(rest, ":")
		var steps []string // none if a row is not an object
		if path != "" {
			steps = strings.Split(path, ".")
		}
		if !named {
			head = strings.ToUpper(strings.ReplaceAll(steps[len(steps)-1], "_", " "))
		}
		list = append(list, column{strings.ReplaceAll(head, "_", " "), steps, kind, wide})
	}
	return list
}

// nounOf returns the noun with a name, nil if there is none.
func nounOf(name string) *noun {
	for i := range nouns {
		if nouns[i].name == name {
			return &nouns[i]
		}
	}
	return nil
}

// verb returns the verb with a name, nil if there is none.
func (n *noun) verb(name string) *verb {
	for i := range n.verbs {
		if n.verbs[i].name == name {
			return &n.verbs[i]
		}
	}
	return nil
}

// pathNouns name the noun of the objects that parameters of paths refer to.
var pathNouns = map[string]string{
	"workspace": "workspaces", "user": "users", "invite": "invites", "key": "keys", "integration": "integrations", "provider": "providers",
	"config": "configs", "prompt": "prompts", "collection": "collections", "label": "labels", "guardrail": "guardrails",
	"endpoint": "webhooks", "deployment": "deployments", "export_schedule": "export-schedules",
	"tool_server": "mcp-servers", "tool_integration": "mcp-integrations", "mcp_bundle": "mcp-bundles",
	"reference": "secrets", "identity_provider": "identity-providers", "domain": "domains", "token": "directory-tokens",
	"workload_identity": "workload-identities", "module": "guardrail-modules", "partial": "partials",
}

// references name the noun of the objects that members of bodies and query parameters refer
// to by their id.
var references = map[string]string{
	"workspace": "workspaces", "workspace_id": "workspaces", "workspaces.id": "workspaces", "workspaces.workspace_id": "workspaces",
	"user_id": "users", "user": "users", "users.id": "users", "user_access.user_id": "users",
	"api_key": "keys", "api_key_ids": "keys", "api_key_id": "keys", "integration": "integrations", "integration_id": "integrations",
	"guardrail": "guardrails", "config": "configs", "configs": "configs", "defaults.config_id": "configs",
	"collection_id": "collections", "parent_collection_id": "collections", "label_id": "labels",
	"mcp_integration_id": "mcp-integrations", "agent_integration_id": "agent-integrations",
	"secret_mappings.secret_reference_id": "secrets",
}

// renamed are the flags of members whose own name is that of a flag of every command, and of
// those that have a name for people.
var renamed = map[string]string{
	"key": "credential", "url": "endpoint", "defaults.metadata": "metadata", "defaults.config_id": "config",
	"time_of_generation_min": "since", "time_of_generation_max": "until",
	"start_time": "since", "end_time": "until", "from": "since", "to": "until", "order_by": "by",
	"ai_provider_id": "ai-provider",
}

// otherFlags are further names of flags: those that the API has for the same parameter.
var otherFlags = map[string]string{
	"from": "since", "to": "until", "time-of-generation-min": "since", "time-of-generation-max": "until",
	"start-time": "since", "end-time": "until", "order-by": "by", "order-by-type": "order", "status-code": "status",
	"workspace-id": "workspace", "workspace-slug": "workspace", "api-key-ids": "api-key", "api-key-id": "api-key",
	"configs": "config", "prompt-slug": "prompt",
}

// acceptOtherNames lets flags be given by their other names, unless a flag has such a name itself.
func acceptOtherNames(flags *pflag.FlagSet) {
	defined := make(map[string]bool)
	flags.VisitAll(func(f *pflag.Flag) { defined[f.Name] = true })
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		above, last := "", name
		if i := strings.LastIndexByte(name, '.'); i >= 0 {
			above, last = name[:i+1], name[i+1:]
		}
		if one := above + otherFlags[last]; !defined[name] && defined[one] {
			name = one
		}
		return pflag.NormalizedName(name)
	})
}

// flagName returns the name of the flag for a member of a body or a query parameter.
func flagName(member string) string {
	above, last := "", member
	if i := strings.LastIndexByte(member, '.'); i >= 0 {
		above, last = strings.ReplaceAll(member[:i+1], "_", "-"), member[i+1:]
	}
	if name := renamed[member]; name != "" {
		return name
	}
	if name := renamed[last]; name != "" {
		return above + name
	}
	if _, refers := references[member]; refers {
		member = strings.TrimSuffix(member, "_id")
	}
	return strings.ReplaceAll(member, "_", "-")
}
