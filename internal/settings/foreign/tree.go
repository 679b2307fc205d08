package foreign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// entry is a value of a source: map[string]any, []any, string, json.Number, bool or nil.
type entry struct {
	value any
	path  string
	seen  readPaths
}

// readPaths are the paths that were read. True is a value that was read with all below it.
type readPaths map[string]bool

// get returns a field, which counts as read. It is empty if e has none.
func (e entry) get(name string) entry {
	m, _ := e.value.(map[string]any)
	v, ok := m[name]
	if !ok {
		return entry{path: e.at(name), seen: e.seen}
	}
	child := entry{v, e.at(name), e.seen}
	if _, read := e.seen[child.path]; !read {
		e.seen[child.path] = false
	}
	return child
}

func (e entry) at(name string) string {
	if e.path == "" {
		return name
	}
	return e.path + "." + name
}

// first returns the first of several fields that e has.
func (e entry) first(names ...string) entry {
	for _, n := range names {
		if v := e.get(n); v.exists() {
			return v
		}
	}
	return entry{path: e.at(names[0]), seen: e.seen}
}

func (e entry) exists() bool { return e.value != nil }

// readAll marks e as read with all below it, and returns its value.
func (e entry) readAll() any {
	if e.exists() {
		e.seen[e.path] = true
	}
	return e.value
}

// items returns the items of a list, which count as read.
func (e entry) items() []entry {
	list, _ := e.value.([]any)
	out := make([]entry, len(list))
	for i, v := range list {
		out[i] = entry{v, e.path + "[" + strconv.Itoa(i) + "]", e.seen}
		if _, read := e.seen[out[i].path]; !read {
			e.seen[out[i].path] = false
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// fields returns the names of an object's fields, sorted.
func (e entry) fields() []string {
	m, _ := e.value.(map[string]any)
	return slices.Sorted(maps.Keys(m))
}

// text returns a string or a number as text, and otherwise nothing.
func (e entry) text() string {
	switch v := e.value.(type) {
	case string:
		return strings.TrimSpace(v)
	case json.Number:
		return v.String()
	}
	return ""
}

// number returns a number, which may be in a string.
func (e entry) number() (float64, bool) {
	f, err := strconv.ParseFloat(e.text(), 64)
	return f, err == nil && f >= 0 && f < 1e15
}

func (e entry) isTrue() bool {
	b, ok := e.value.(bool)
	return ok && b || strings.EqualFold(e.text(), "true") || e.text() == "1"
}

// walkUnread calls report for the values that were not read.
func (e entry) walkUnread(report func(path string)) {
	below := func(child entry) {
		switch whole, read := e.seen[child.path]; {
		case !read:
			report(child.path)
		case !whole:
			child.walkUnread(report)
		}
	}
	if m, ok := e.value.(map[string]any); ok {
		for _, name := range e.fields() {
			below(entry{m[name], e.at(name), e.seen})
		}
	}
	if list, ok := e.value.([]any); ok {
		for i, v := range list {
			below(entry{v, e.path + "[" + strconv.Itoa(i) + "]", e.seen})
		}
	}
}

func tooLarge(most int) error { return fmt.Errorf("the file is larger than %d bytes", most) }

var errNested = fmt.Errorf("the file is nested deeper than %d levels", maxDepth)

// parseJSON parses a JSON value.
func parseJSON(text []byte) (any, error) {
	if len(text) > maxOther {
		return nil, tooLarge(maxOther)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	depth := 0
	for { // json refuses values nested deeper than 10,000 levels only
		t, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("the file is not JSON: %w", err)
		}
		switch t {
		case json.Delim('['), json.Delim('{'):
			if depth++; depth > maxDepth {
				return nil, errNested
			}
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
	}
	d = json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("the file is not JSON: %w", err)
	}
	if d.More() {
		return nil, errors.New("the file has more than one JSON value")
	}
	return v, nil
}

// parseYAML parses the first document of a YAML file. Aliases are bounded by the number of
// values and levels they lead to.
func parseYAML(text []byte) (any, error) {
	if len(text) > maxYAML {
		return nil, tooLarge(maxYAML)
	}
	if isNestedYAML(text) {
		return nil, errNested
	}
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		problem, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fmt.Errorf("the file is not YAML: %s", problem)
	}
	if len(tree.Docs) == 0 || tree.Docs[0].Body == nil {
		return nil, errors.New("the file is empty")
	}
	r := yamlReader{anchors: map[string]ast.Node{}}
	return r.read(tree.Docs[0].Body, 0)
}

// isNestedYAML reports whether a text may be nested so deep that parsing it takes too much of
// the stack: by brackets, by indentation, or by indicators in one line.
func isNestedYAML(text []byte) bool {
	brackets := 0
	for line := range bytes.Lines(text) {
		content := bytes.TrimLeft(line, " ")
		if len(line)-len(content) > 8*maxDepth {
			return true
		}
		lead := len(content) - len(bytes.TrimLeft(content, "-?! :\t"))
		if bytes.Count(content[:lead], []byte("- "))+bytes.Count(content[:lead], []byte("? ")) > maxDepth {
			return true
		}
		for _, c := range content {
			switch c {
			case '[', '{':
				if brackets++; brackets > maxDepth {
					return true
				}
			case ']', '}':
				brackets = max(brackets-1, 0)
			}
		}
	}
	return false
}

// yamlReader turns nodes into values, with the aliases in them.
type yamlReader struct {
	anchors map[string]ast.Node
	nodes   int
}

var errNodes = fmt.Errorf("the file has more than %d values, with those that its aliases repeat", maxNodes)

func (r *yamlReader) read(n ast.Node, depth int) (any, error) {
	if r.nodes++; r.nodes > maxNodes {
		return nil, errNodes
	}
	if depth > maxDepth {
		return nil, errNested
	}
	switch n := n.(type) {
	case nil:
		return nil, nil
	case *ast.AnchorNode:
		r.anchors[n.Name.GetToken().Value] = n.Value
		return r.read(n.Value, depth+1)
	case *ast.AliasNode:
		to, ok := r.anchors[n.Value.GetToken().Value]
		if !ok {
			return nil, fmt.Errorf("line %d: the alias has no anchor before it", n.GetToken().Position.Line)
		}
		return r.read(to, depth+1)
	case *ast.TagNode:
		return r.read(n.Value, depth+1)
	case *ast.MappingNode:
		return r.mapping(n.Values, depth)
	case *ast.MappingValueNode:
		return r.mapping([]*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		list := make([]any, 0, len(n.Values))
		for _, item := range n.Values {
			v, err := r.read(item, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case *ast.NullNode:
		return nil, nil
	case *ast.BoolNode:
		return n.Value, nil
	case *ast.IntegerNode:
		return json.Number(fmt.Sprint(n.Value)), nil
	case *ast.FloatNode:
		return json.Number(strconv.FormatFloat(n.Value, 'g', -1, 64)), nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.StringNode:
		return n.Value, nil
	}
	return n.GetToken().Value, nil
}

// mapping reads the pairs of a mapping. Pairs of a merge key give way to the others.
func (r *yamlReader) mapping(pairs []*ast.MappingValueNode, depth int) (any, error) {
	out, merged := make(map[string]any, len(pairs)), map[string]any{}
	for _, p := range pairs {
		v, err := r.read(p.Value, depth+1)
		if err != nil {
			return nil, err
		}
		if p.Key.Type() == ast.MergeKeyType {
			all, isList := v.([]any)
			if !isList {
				all = []any{v}
			}
			for _, one := range slices.Backward(all) {
				m, _ := one.(map[string]any)
				if r.nodes += len(m); r.nodes > maxNodes {
					return nil, errNodes
				}
				maps.Copy(merged, m)
			}
			continue
		}
		out[keyText(p.Key)] = v
	}
	for name, v := range merged {
		if _, ok := out[name]; !ok {
			out[name] = v
		}
	}
	return out, nil
}

func keyText(k ast.MapKeyNode) string {
	if s, ok := k.(*ast.StringNode); ok {
		return s.Value
	}
	return k.GetToken().Value
}
