package checks

import (
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"modelgate/internal/guardrail"
)

// maxCost is the maximum number of steps of a validation. A schema that refers
// to itself from several branches could take exponential time otherwise.
const maxCost = 5_000_000

var errCost = guardrail.NewIncomplete("the JSON takes more than %d steps to validate with this schema; send less JSON", maxCost)

// checkCost returns an error if validating value could take more than maxCost
// steps. It assumes that every keyword applies, and is itself bounded by
// maxCost.
func checkCost(s *jsonschema.Schema, value any) error {
	c := &coster{known: map[visit]int{}}
	if c.cost(s, treeOf(value)) > maxCost {
		return errCost
	}
	return nil
}

// node is a JSON value as far as it matters for the cost.
type node struct {
	children []*node
	text     int // bytes of a string or of the keys of an object
	size     int // of the value in nodes, with one more for each 100 bytes of text
}

func treeOf(value any) *node {
	n := &node{}
	switch v := value.(type) {
	case string:
		n.text = len(v)
	case []any:
		for _, item := range v {
			n.children = append(n.children, treeOf(item))
		}
	case map[string]any:
		for name, item := range v {
			n.text += len(name)
			n.children = append(n.children, treeOf(item))
		}
	}
	n.size = 1 + n.text/100
	for _, child := range n.children {
		n.size += child.size
	}
	return n
}

type visit struct {
	schema *jsonschema.Schema
	node   *node
}

// coster adds up steps, each pair of schema and value once.
type coster struct{ known map[visit]int }

// cost returns the number of steps, or more than maxCost.
func (c *coster) cost(s *jsonschema.Schema, n *node) int {
	if s == nil {
		return 0
	}
	at := visit{s, n}
	if known, ok := c.known[at]; ok {
		return known
	}
	if len(c.known) > maxCost/10 {
		return maxCost + 1
	}
	c.known[at] = maxCost + 1 // in case that it refers to itself
	total := add(1+len(n.children), patternCost(s.Pattern, n))
	if s.Enum != nil { // each of its values is compared with the complete value
		total = add(total, len(s.Enum.Values)*n.size)
	}
	for _, sub := range inPlace(s) {
		if total = add(total, c.cost(sub, n)); total > maxCost {
			break
		}
	}
	for p := range s.PatternProperties {
		total = add(total, patternCost(p, n))
	}
	below := ofChildren(s)
	for _, child := range n.children {
		for _, sub := range below {
			if total = add(total, c.cost(sub, child)); total > maxCost {
				break
			}
		}
	}
	c.known[at] = total
	return total
}

func add(a, b int) int { return min(a+b, maxCost+1) }

// patternCost returns the steps of a pattern on a string or on the keys of an object.
func patternCost(p jsonschema.Regexp, n *node) int {
	if s, ok := p.(schemaPattern); ok {
		return 1 + n.text*s.size/100
	}
	return 0
}

// inPlace returns the schemas that are applied to the same value.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	list := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, slices.Collect(maps.Values(s.DependentSchemas)))
	for _, sub := range s.Dependencies {
		if sub, ok := sub.(*jsonschema.Schema); ok {
			list = append(list, sub)
		}
	}
	if s.DynamicRef != nil {
		list = append(list, s.DynamicRef.Ref)
	}
	return append(list, s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else, s.PropertyNames)
}

// ofChildren returns the schemas that are applied to members or items.
func ofChildren(s *jsonschema.Schema) []*jsonschema.Schema {
	list := slices.Concat(slices.Collect(maps.Values(s.Properties)), slices.Collect(maps.Values(s.PatternProperties)), s.PrefixItems)
	for _, some := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		switch some := some.(type) {
		case *jsonschema.Schema:
			list = append(list, some)
		case []*jsonschema.Schema:
			list = append(list, some...)
		}
	}
	return append(list, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems)
}
