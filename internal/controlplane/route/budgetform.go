package route

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// budgetField is the member of bodies with the budgets of an object.
const budgetField = "usage_limits"

// maxNested is how many objects budgets are in at most, as in workspaces of
// global_workspace_access. Deeper ones are not fields of any route.
const maxNested = 2

// budgetForm is how the handler of a route reads [budgetField]. Clients may send both forms.
type budgetForm uint8

const (
	noBudgets budgetForm = iota
	oneBudget            // an object
	budgetList
)

// budgetFormOf returns the form in which an input has budgets.
func budgetFormOf(input reflect.Type) budgetForm {
	body, ok := input.FieldByName("Body")
	if !ok {
		return noBudgets
	}
	return budgetFormIn(body.Type)
}

func budgetFormIn(t reflect.Type) budgetForm {
	if t = valueType(t); t.Kind() == reflect.Slice {
		t = valueType(t.Elem())
	}
	if t.Kind() != reflect.Struct {
		return noBudgets
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == budgetField && valueType(f.Type).Kind() == reflect.Slice:
			return budgetList
		case name == budgetField:
			return oneBudget
		case slices.Contains(nested, name):
			if form := budgetFormIn(f.Type); form != noBudgets {
				return form
			}
		}
	}
	return noBudgets
}

// valueType returns the type of a field without its pointer or [Optional].
func valueType(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Struct && strings.HasPrefix(t.Name(), "Optional[") {
		if value, ok := t.FieldByName("Value"); ok {
			return value.Type
		}
	}
	return t
}

// normaliseBudgets replaces budgets in a body in the other form than the handler reads: an
// object in place of a list of one, or such a list in place of an object.
func (r *Route) normaliseBudgets(req *http.Request, c *Caller) error {
	var fields map[string]json.RawMessage
	if r.budgets == noBudgets || !bytes.Contains(c.body, []byte(budgetField)) || json.Unmarshal(c.body, &fields) != nil {
		return nil
	}
	changed, err := r.budgets.normalise("", fields)
	if err != nil || !changed {
		return err
	}
	c.body, err = json.Marshal(fields)
	req.Body = io.NopCloser(bytes.NewReader(c.body))
	return err
}

// normalise changes the budgets among the members of an object at path.
func (f budgetForm) normalise(path string, fields map[string]json.RawMessage) (changed bool, err error) {
	raw := bytes.TrimSpace(fields[budgetField])
	switch {
	case f == budgetList && len(raw) > 0 && raw[0] == '{':
		fields[budgetField], changed = slices.Concat([]byte("["), raw, []byte("]")), true
	case f == oneBudget && len(raw) > 0 && raw[0] == '[':
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return false, err
		}
		switch len(list) {
		case 0:
			fields[budgetField] = json.RawMessage("null")
		case 1:
			fields[budgetField] = list[0]
		default:
			return false, Invalid(path+budgetField, "must be one budget: this object has no more")
		}
		changed = true
	}
	if strings.Count(path, ".") == maxNested { // each level decodes the rest again
		return changed, nil
	}
	for _, name := range nested {
		var one map[string]json.RawMessage
		var list []map[string]json.RawMessage
		var also bool
		switch raw := bytes.TrimSpace(fields[name]); {
		case len(raw) > 0 && raw[0] == '{' && json.Unmarshal(raw, &one) == nil:
			if also, err = f.normalise(path+name+".", one); also {
				fields[name], err = json.Marshal(one)
			}
		case len(raw) > 0 && raw[0] == '[' && json.Unmarshal(raw, &list) == nil:
			if also, err = f.normaliseEach(path+name, list); also {
				fields[name], err = json.Marshal(list)
			}
		}
		if changed = changed || also; err != nil {
			return false, err
		}
	}
	return changed, nil
}

func (f budgetForm) normaliseEach(path string, list []map[string]json.RawMessage) (changed bool, err error) {
	for i, item := range list {
		also, err := f.normalise(fmt.Sprintf("%s[%d].", path, i), item)
		if err != nil {
			return false, err
		}
		changed = changed || also
	}
	return changed, nil
}
