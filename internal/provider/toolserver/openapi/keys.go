package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// checkKeys returns an error if an object in valid JSON names a member twice: programs do not
// agree on which of the two counts, so that what is shown need not be what is used.
func checkKeys(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var open []map[string]bool // keys of the objects and lists around; nil for a list
	isKey := false             // a text that comes next is a key
	for {
		token, err := dec.Token()
		if err != nil {
			return nil // the end
		}
		switch v := token.(type) {
		case json.Delim:
			switch v {
			case '{':
				open = append(open, map[string]bool{})
			case '[':
				open = append(open, nil)
			default:
				open = open[:len(open)-1]
			}
			isKey = len(open) > 0 && open[len(open)-1] != nil
			continue
		case string:
			if isKey {
				keys := open[len(open)-1]
				if keys[v] {
					return fmt.Errorf("an object of the document has two members %.60q; send one", v)
				}
				keys[v], isKey = true, false
				continue
			}
		}
		isKey = len(open) > 0 && open[len(open)-1] != nil
	}
}
