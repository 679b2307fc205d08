package config

import (
	"encoding/json"
	"slices"
)

// RoutedModel is a name of a model that a config gives a target.
type RoutedModel struct {
	Name   string
	Target *Config
}

// RoutedModels returns the names of models that conditions of the root compare with
// params.model alone, by $eq, $in or $or of them, in the order of the conditions. They are
// the names that clients may use without knowing a provider.
func (c *Config) RoutedModels() []RoutedModel {
	if c.Strategy == nil || c.Strategy.Mode != Conditional {
		return nil
	}
	byName := make(map[string]*Config, len(c.Targets))
	for _, t := range c.Targets {
		byName[t.Name] = t
	}
	var out []RoutedModel
	seen := map[string]bool{}
	for _, cond := range c.Strategy.Conditions {
		for _, name := range cond.Query.models() {
			if t := byName[cond.Then]; t != nil && name != "" && !seen[name] {
				seen[name] = true
				out = append(out, RoutedModel{name, t})
			}
		}
	}
	return out
}

// RoutesModels reports whether a condition of the root depends on the model alone.
func (c *Config) RoutesModels() bool {
	if c.Strategy == nil || c.Strategy.Mode != Conditional {
		return false
	}
	return slices.ContainsFunc(c.Strategy.Conditions, func(cond Condition) bool {
		q := cond.Query
		for q != nil && q.Op == And && len(q.Queries) == 1 {
			q = q.Queries[0]
		}
		return q != nil && q.Path == "params.model" || len(q.models()) > 0
	})
}

// models returns the models for which q is true whatever else the request has.
func (q *Query) models() []string {
	switch {
	case q == nil:
		return nil
	case q.Op == And && len(q.Queries) == 1:
		return q.Queries[0].models()
	case q.Op == Or:
		var out []string
		for _, one := range q.Queries {
			out = append(out, one.models()...)
		}
		return out
	case q.Path != "params.model":
		return nil
	case q.Op == Eq:
		var name string
		if json.Unmarshal(q.Operand, &name) != nil {
			return nil
		}
		return []string{name}
	case q.Op == In:
		var names []string
		if json.Unmarshal(q.Operand, &names) != nil {
			return nil
		}
		return names
	}
	return nil
}
