package catalogue

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
)

// Authentication is a way to authenticate.
type Authentication struct {
	Kind   string   `json:"kind" enum:"key,aws_signature,google_service_account,entra_token,oci_signature"`
	Doc    string   `json:"doc"`
	Fields []string `json:"fields" doc:"Names of the fields that it uses"`
}

// Field is a field of an integration.
type Field struct {
	Name     string   `json:"name" doc:"key, or the name in configurations"`
	Label    string   `json:"label"`
	Kind     string   `json:"kind" enum:"text,document,choice,url,headers,deployments,boolean"`
	Secret   bool     `json:"secret" doc:"Stored sealed and shown as a mask"`
	Required bool     `json:"required"`
	Default  *string  `json:"default"`
	Values   []string `json:"values" doc:"Of a choice"`
	Help     string   `json:"help"`
}

// dialects are all API formats of conversations.
var dialects = [...]api.Dialect{api.DialectChat, api.DialectMessages, api.DialectResponses, api.DialectGemini, api.DialectConverse,
	api.DialectInvoke, api.DialectCohere, api.DialectOllama, api.DialectOracle, api.DialectReplicate}

// providers returns all providers, by id. The slice is shared.
var providers = sync.OnceValue(func() (list []Provider) {
	for _, s := range table.All() {
		list = append(list, describe(s))
	}
	return list
})

// describe describes a provider.
func describe(s *provider.Spec) Provider {
	need := requiredOptions(s)
	p := Provider{
		ID: s.ID, Name: s.Name, Aliases: append([]string{}, s.Aliases...), BaseURL: route.OrNull(s.BaseURL), Docs: route.OrNull(s.Docs),
		Environment: route.OrNull(s.Env), Authentication: authentication(s), Operations: table.Operations(s), Dialects: []string{},
		Notes: append([]string{}, s.Notes...), Object: "catalogue.provider",
	}
	for _, d := range dialects {
		if _, ok := s.Paths[d.ConversationOperation()]; ok {
			p.Dialects = append(p.Dialects, string(d))
		}
	}
	if table.Credential(s) != "none" {
		p.Credential = append(p.Credential, Field{Name: "key", Label: "Key", Kind: "text", Secret: true, Values: []string{},
			Required: s.NeedsKey(nil) && len(s.Auth.KeyAlternatives) == 0 && s.BaseURL != "", Help: "sent as " + table.Credential(s)})
	}
	for _, o := range s.Options {
		p.Credential = append(p.Credential, optionField(s, o, need[o.Name]))
	}
	return withCommonFields(p, s, need)
}

// optionField describes an option.
func optionField(s *provider.Spec, o provider.Option, required bool) Field {
	f := Field{Name: credentials.Wire(s, o.Name), Label: label(o.Name), Kind: "text", Secret: credentials.Hidden(o.Name), Required: required,
		Default: route.OrNull(o.Default), Values: append([]string{}, o.Values...), Help: o.Doc}
	switch {
	case len(o.Values) > 0:
		f.Kind = "choice"
	case credentials.IsDocument(o.Name):
		f.Kind = "document"
	case strings.HasSuffix(o.Name, "_url"):
		f.Kind = "url"
	}
	return f
}

// withCommonFields adds the fields that do not depend on the options of a provider.
func withCommonFields(p Provider, s *provider.Spec, need map[string]bool) Provider {
	add := func(name, label, kind, help string, hidden bool) {
		p.Credential = append(p.Credential, Field{Name: credentials.Wire(s, name), Label: label, Kind: kind, Secret: hidden,
			Required: need[name], Values: []string{}, Help: help})
	}
	if s.Deployments {
		add("deployment_config", "Deployments", "deployments", "deployments of the resource with the model of each", false)
	}
	if s.ReservedCapacity {
		p.Credential = append(p.Credential, Field{Name: "skipPtuCostAttribution", Label: "Reserved capacity", Kind: "boolean",
			Values: []string{}, Help: "the capacity is paid for, so that requests cost nothing"})
	}
	add("custom_host", "Address", "url", "replaces the complete base address: scheme, host and path prefix", false)
	add("custom_headers", "Headers", "headers", "sent with each request; values are stored sealed", true)
	return p
}

// ways are the ways to authenticate other than with a key.
var ways = map[provider.Method]Authentication{
	provider.MethodAWS:   {Kind: "aws_signature", Doc: "Requests are signed with an access key, or with a role"},
	provider.MethodGCP:   {Kind: "google_service_account", Doc: "Access tokens are fetched for a service account"},
	provider.MethodEntra: {Kind: "entra_token", Doc: "Access tokens of Microsoft Entra are fetched or given"},
	provider.MethodOCI:   {Kind: "oci_signature", Doc: "Requests are signed with the key of a user of Oracle Cloud"},
}

func authentication(s *provider.Spec) []Authentication {
	list := []Authentication{}
	if s.Auth.Header != "" || s.Auth.Query != "" {
		list = append(list, Authentication{Kind: "key", Doc: "The key is sent as " + table.Credential(s), Fields: []string{"key"}})
	}
	if way, ok := ways[s.Auth.Method]; ok {
		way.Fields = []string{}
		for _, name := range s.Auth.KeyAlternatives {
			way.Fields = append(way.Fields, credentials.Wire(s, name))
		}
		list = append(list, way)
	}
	return list
}

// capitals are words of option names with their spelling in labels.
var capitals = map[string]string{
	"api": "API", "aws": "AWS", "arn": "ARN", "gcp": "GCP", "id": "ID", "json": "JSON", "oci": "OCI", "url": "URL",
}

// label returns the name of an option as people read it.
func label(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words {
		if spelling, ok := capitals[w]; ok {
			words[i] = spelling
		} else if i == 0 && w != "" {
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, " ")
}

// requiredOptions returns the options, and custom_host, without which no conversation can
// be sent: it builds a request, and sets what is missing until it can be built.
func requiredOptions(s *provider.Spec) map[string]bool {
	need, given := make(map[string]bool), provider.Settings{Key: secret.New("key"), Options: make(map[string]string)}
	for range len(s.Options) + 2 {
		name := missingOption(s, given)
		if name == "custom_host" {
			given.CustomHost = "https://host.example.com"
		} else if i := slices.IndexFunc(s.Options, func(o provider.Option) bool { return o.Name == name }); i >= 0 {
			given.Options[name] = "value"
			if o := &s.Options[i]; len(o.Values) > 0 {
				given.Options[name] = o.Meaning(o.Values[0])
			}
		} else {
			return need
		}
		if need[name] {
			return need
		}
		need[name] = true
	}
	return need
}

// missingOption returns the option that an error of building a request names, empty if
// there is no error or if it names none.
func missingOption(s *provider.Spec, given provider.Settings) string {
	t, err := provider.NewTarget(s, given)
	if err == nil {
		op := s.Dialect.ConversationOperation()
		if _, ok := s.Paths[op]; !ok {
			ops := table.Operations(s)
			if len(ops) == 0 {
				return ""
			}
			op = api.Operation(ops[0])
		}
		_, err = provider.NewRequest(context.Background(), t, &provider.Call{Operation: op, Method: http.MethodPost, Model: "model"})
	}
	if err == nil {
		return ""
	}
	return strings.TrimPrefix(apierr.From(err).Param, s.OptionPrefix)
}
