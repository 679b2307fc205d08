package checks

import (
	"encoding/json"
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
// steps: a validation cannot be interrupted. It assumes that every keyword applies, and
// is itself bounded by maxCost.
func checkCost(s schema, value any) error {
	c := &coster{known: map[visit]int{}, anchored: s.anchored}
	if c.cost(s.Schema, treeOf(value)) > maxCost {
		return errCost
	}
	return nil
}

// node is a JSON value as far as it matters for the cost.
type node struct {
	value    any
	children []*node
	text     int // bytes of a string or of the keys of an object
	size     int // of the value in nodes, with one more for each 100 bytes of text
}

// costOfNumber is the number of steps to compare a number, which is read as a fraction.
const costOfNumber = 10

func treeOf(value any) *node {
	n := &node{value: value}
	switch v := value.(type) {
	case string:
		n.text = len(v)
	case json.Number:
		n.size = costOfNumber * (1 + digitsOf(v)/100)
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
	n.size += 1 + n.text/100
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
type coster struct {
	known    map[visit]int
	anchored []*jsonschema.Schema // that a dynamic reference can lead to
	depth    int                  // schemas around this one that are applied to the same value
}

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
	c.known[at] = maxCost + 1            // in case that it refers to itself
	total := add(ownCost(s, n), c.depth) // the validator searches those around it for the same schema
	c.depth++
	for _, sub := range c.inPlace(s) {
		if total = add(total, c.cost(sub, n)); total > maxCost {
			break
		}
	}
	around := c.depth - 1
	c.depth = 0
	below := ofChildren(s)
	for _, child := range n.children {
		for _, sub := range below {
			if total = add(total, c.cost(sub, child)); total > maxCost {
				break
			}
		}
	}
	c.depth = around
	c.known[at] = total
	return total
}

// ownCost returns the steps of the keywords of s itself.
func ownCost(s *jsonschema.Schema, n *node) int {
	total := 1 + len(n.children) + len(s.Required) + patternCost(s.Pattern, n)
	if s.Enum != nil { // each of its values is compared with the complete value
		total = add(total, len(s.Enum.Values)*n.size)
	}
	if s.Const != nil {
		total = add(total, n.size)
	}
	if s.Format != nil {
		total = add(total, n.text/10)
	}
	if _, ok := n.value.(json.Number); ok &&
		(s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil || s.MultipleOf != nil) {
		total = add(total, n.size)
	}
	if s.UniqueItems {
		total = add(total, uniqueCost(n))
	}
	for p := range s.PatternProperties {
		total = add(total, patternCost(p, n))
	}
	for _, names := range s.DependentRequired {
		total = add(total, 1+len(names))
	}
	for _, names := range s.Dependencies {
		names, _ := names.([]string)
		total = add(total, 1+len(names))
	}
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
func (c *coster) inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	list := inPlace(s)
	for _, other := range c.anchored {
		if s.RecursiveRef != nil && other.RecursiveAnchor || s.DynamicRef != nil && other.DynamicAnchor == s.DynamicRef.Anchor {
			list = append(list, other)
		}
	}
	return list
}

// anchoredIn returns those of open and of the schemas below them that a dynamic reference
// can lead to.
func anchoredIn(open []*jsonschema.Schema) (list []*jsonschema.Schema) {
	seen := map[*jsonschema.Schema]bool{nil: true}
	for len(open) > 0 {
		s := open[len(open)-1]
		open = open[:len(open)-1]
		if seen[s] {
			continue
		}
		seen[s] = true
		if s.RecursiveAnchor || s.DynamicAnchor != "" {
			list = append(list, s)
		}
		open = append(append(open, inPlace(s)...), ofChildren(s)...)
	}
	return list
}

// inPlace returns the schemas that s itself names for the same value.
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
