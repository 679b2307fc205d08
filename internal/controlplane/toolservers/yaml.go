package toolservers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

// Limits of documents in YAML.
const (
	maxYAML       = 1 << 20 // in bytes
	maxYAMLFlow   = 64      // nested lists and objects in brackets
	maxYAMLColumn = 400     // of what begins a nested part
	maxYAMLKeys   = 2000    // of an object: the time to read them grows with their square
)

// yamlToJSON returns a document in YAML as JSON. Anchors are refused: a few lines of them can
// stand for more than fits in memory.
func yamlToJSON(text []byte) ([]byte, error) {
	if len(text) > maxYAML {
		return nil, fmt.Errorf("a document in YAML can have %d bytes; send it as JSON", maxYAML)
	}
	if err := checkYAML(lexer.Tokenize(string(text))); err != nil {
		return nil, err
	}
	var root map[string]any
	dec := yaml.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&root); err != nil {
		return nil, errors.New("it is neither a JSON object nor YAML: " + yaml.FormatError(err, false, false))
	}
	var more any
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is more than one document in YAML; send one")
	}
	return json.Marshal(root)
}

// checkYAML returns an error for a document that would take too much to read.
func checkYAML(tokens token.Tokens) error {
	flow, inFlow, keys := 0, 0, map[int]int{} // keys of the current objects, by their column
	for i, t := range tokens {
		column := t.Position.Column
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType, token.TagType:
			return fmt.Errorf("line %d has an anchor, an alias or a tag, which are not read; send the document as JSON", t.Position.Line)
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			if flow--; flow <= 0 {
				inFlow = 0
			}
		case token.MappingValueType, token.SequenceEntryType, token.MappingKeyType:
			if t.Type == token.MappingValueType && i > 0 {
				column = tokens[i-1].Position.Column
			}
			if flow > 0 {
				inFlow++
				break
			}
			for c := range keys {
				if c > column {
					delete(keys, c)
				}
			}
			if t.Type == token.MappingValueType {
				keys[column]++
			}
		}
		if flow > maxYAMLFlow || flow == 0 && column > maxYAMLColumn && isNesting(t.Type) || inFlow > maxYAMLKeys || keys[column] > maxYAMLKeys {
			return fmt.Errorf("line %d is nested too deep, or its object has more than %d members", t.Position.Line, maxYAMLKeys)
		}
	}
	return nil
}

// isNesting reports whether a token begins a nested part.
func isNesting(t token.Type) bool {
	return t == token.MappingValueType || t == token.SequenceEntryType || t == token.MappingKeyType
}
