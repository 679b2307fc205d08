package scim_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	filter "github.com/scim2/filter-parser/v2"

	"modelgate/internal/identity/scim"
)

func TestFiltersHavePrecedence(t *testing.T) {
	for text, want := range map[string]string{
		`a eq "1" or b eq "2" and c pr`:        `or(eq a 1, and(eq b 2, pr c))`,
		`(a eq "1" or b eq "2") and not(c pr)`: `and(or(eq a 1, eq b 2), not(pr c))`,
		`A.B EQ TRUE`:                          `eq a.b true`,
		`a eq null and b ne 1.50`:              `and(eq a <nil>, ne b 1.50)`,
		`e[x eq "1" and not (y pr)]`:           `[](e, and(eq x 1, not(pr y)))`,
		`e[x eq "1"].z co "q"`:                 `[](e, and(eq x 1, co z q))`,
		`not eq "a"`:                           `eq not a`,
		`and eq "or"`:                          `eq and or`,
		`a eq "x \" and b eq \u00e9"`:          `eq a x " and b eq é`,
		`urn:x:y:2.0:User:z sw "q"`:            `sw urn:x:y:2.0:user:z q`,
	} {
		f, err := scim.ParseFilter(text)
		if err != nil || show(f) != want {
			t.Errorf("%s: %s, %v, want %s", text, show(f), err, want)
		}
	}
}

// show returns a filter in prefix form.
func show(f *scim.Filter) string {
	if f == nil {
		return "none"
	}
	args := make([]string, len(f.Args))
	for i, arg := range f.Args {
		args[i] = show(arg)
	}
	switch f.Op {
	case scim.And, scim.Or, scim.Not:
		return string(f.Op) + "(" + strings.Join(args, ", ") + ")"
	case scim.Has:
		return "[](" + f.Path + ", " + args[0] + ")"
	case scim.Present:
		return "pr " + f.Path
	}
	text, err := json.Marshal(f.Value)
	if err != nil || f.Value == nil {
		return string(f.Op) + " " + f.Path + " <nil>"
	}
	if s, ok := f.Value.(string); ok {
		text = []byte(s)
	}
	return string(f.Op) + " " + f.Path + " " + string(text)
}

// format writes a filter as text that parses to the same filter.
func format(f *scim.Filter) string {
	args := make([]string, len(f.Args))
	for i, arg := range f.Args {
		args[i] = format(arg)
	}
	switch f.Op {
	case scim.And, scim.Or:
		return "(" + strings.Join(args, " "+string(f.Op)+" ") + ")"
	case scim.Not:
		return "not (" + args[0] + ")"
	case scim.Has:
		return f.Path + "[" + args[0] + "]"
	case scim.Present:
		return f.Path + " pr"
	}
	value, err := json.Marshal(f.Value)
	if err != nil {
		return err.Error()
	}
	return f.Path + " " + string(f.Op) + " " + string(value)
}

// FuzzFilter checks that a filter is refused with an error of its own, or survives being
// printed.
func FuzzFilter(f *testing.F) {
	for _, text := range []string{
		`userName eq "a"`, `emails[type eq "work" and not (value co "x")].value pr`, `a pr or (b ne null and c gt 1e9)`, `((((`, `a eq "`, `not (a pr)`,
		`x[`, `eq eq eq`, `a.b.c:d ew "\ud800"`, "a\teq 1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := scim.ParseFilter(text)
		if err != nil {
			mustBe(t, err, scim.InvalidFilter)
			return
		}
		printed := format(parsed)
		again, err := scim.ParseFilter(printed)
		if len(printed) > 4096 || strings.Count(printed, "(") > 8 { // beyond the bounds that the text was within
			return
		}
		if err != nil {
			t.Fatalf("%q is printed as %q: %v", text, printed, err)
		}
		if diff := cmp.Diff(show(parsed), show(again)); diff != "" {
			t.Fatalf("%q is printed as %q\n%s", text, printed, diff)
		}
	})
}

// mustBe fails unless err is an error of SCIM with one of the types.
func mustBe(t *testing.T, err error, kinds ...string) {
	t.Helper()
	e, ok := errors.AsType[*scim.Error](err)
	for _, kind := range kinds {
		if ok && e.Type == kind {
			return
		}
	}
	t.Fatalf("error %#v, want one of the types %v", err, kinds)
}

// FuzzFilterLikeOthers checks that filters which another parser accepts too have the same
// comparisons in the same order.
func FuzzFilterLikeOthers(f *testing.F) {
	for _, text := range []string{
		`userName eq "a"`, `a pr or (b ne "x" and c gt "y")`, `not (a pr) and b sw "x"`, `emails[type eq "work" and value co "x"]`, `a eq true or b eq "x" and c pr`,
	} {
		if other, err := filter.ParseFilter([]byte(text)); err != nil || flatOther(other) == "?" || !isPlain(text) {
			f.Fatalf("%s is not compared: %v", text, err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		own, err := scim.ParseFilter(text)
		if err != nil || !isPlain(text) {
			return
		}
		other, err := filter.ParseFilter([]byte(text))
		if err != nil {
			return // it does not accept all that Entra sends
		}
		if a, b := flat(own), flatOther(other); a != b {
			t.Fatalf("%q is %s, and %s for the other parser", text, a, b)
		}
	})
}

// isPlain reports whether a text has only characters on which parsers agree: the other one reads
// numbers and escapes differently.
func isPlain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || r == '\\' || r >= '0' && r <= '9' })
}

// flat returns the structure of a filter without its values.
func flat(f *scim.Filter) string {
	if len(f.Args) == 0 {
		return f.Path + " " + string(f.Op)
	}
	return f.Path + string(f.Op) + "(" + strings.Join(terms(f, f.Op), ", ") + ")"
}

// terms returns the terms of one operator, without parentheses.
func terms(f *scim.Filter, op scim.Op) (list []string) {
	for _, arg := range f.Args {
		if arg.Op == op && (op == scim.And || op == scim.Or) {
			list = append(list, terms(arg, op)...)
			continue
		}
		list = append(list, flat(arg))
	}
	return list
}

// flatOther is flat for the other parser, which nests terms of one operator.
func flatOther(e filter.Expression) string {
	switch e := e.(type) {
	case *filter.AttributeExpression:
		return strings.ToLower(e.AttributePath.String() + " " + string(e.Operator))
	case *filter.LogicalExpression:
		return strings.ToLower(string(e.Operator)) + "(" + strings.Join(operands(e, e.Operator), ", ") + ")"
	case *filter.NotExpression:
		return "not(" + flatOther(e.Expression) + ")"
	case *filter.ValuePath:
		return strings.ToLower(e.AttributePath.String()) + "[](" + flatOther(e.ValueFilter) + ")"
	}
	return "?"
}

func operands(e *filter.LogicalExpression, op filter.LogicalOperator) (list []string) {
	for _, side := range []filter.Expression{e.Left, e.Right} {
		if inner, ok := side.(*filter.LogicalExpression); ok && inner.Operator == op {
			list = append(list, operands(inner, op)...)
			continue
		}
		list = append(list, flatOther(side))
	}
	return list
}

// FuzzPath checks that paths of operations are refused, or name an attribute.
func FuzzPath(f *testing.F) {
	users, groups := scim.NewUserType(false), scim.NewGroupType()
	for _, text := range []string{
		"userName", "name.givenName", `emails[type eq "work"].value`, scim.EnterpriseURN, scim.EnterpriseURN + ":manager.value", scim.UserURN + ":active",
		`members[value eq "a"]`, "emails[", "emails]", "..", ":", `emails[type eq "work"]value`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, typ := range []*scim.Type{users, groups} {
			p, err := typ.ParsePath(text)
			if err != nil {
				mustBe(t, err, scim.InvalidPath, scim.InvalidFilter)
				continue
			}
			if p.Attribute == nil && p.Extension == nil {
				t.Fatalf("%q names nothing: %+v", text, p)
			}
		}
	})
}

// FuzzPatch checks that operations of any form are refused, or leave an object that a client
// could have sent.
func FuzzPatch(f *testing.F) {
	users := scim.NewUserType(false)
	for _, text := range []string{
		`{"op":"add","path":"emails[type eq \"work\"].value","value":"a"}`, `{"op":"replace","value":{"name.givenName":"a","active":"False"}}`,
		`{"op":"Remove","path":"emails"}`, `{"op":"add","path":"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:manager","value":"m"}`,
		`{"op":"replace","path":"name","value":null}`, `{"op":"add","value":{"emails":[{"value":"b","primary":true}]}}`,
	} {
		f.Add(text)
	}
	const before = `{"userName":"a","name":{"givenName":"A"},"emails":[{"value":"a","type":"work","primary":true},{"value":"b"}]}`
	f.Fuzz(func(t *testing.T, operation string) {
		list, err := scim.DecodePatch([]byte(`{"Operations":[` + operation + `]}`))
		if err != nil {
			return
		}
		current, err := users.Decode([]byte(before))
		if err != nil {
			t.Fatal(err)
		}
		after, err := users.Patch(current, list)
		if kept, _ := json.Marshal(current); !strings.Contains(string(kept), `"primary":true`) {
			t.Fatalf("%s changed the object that it was given: %s", operation, kept)
		}
		if err != nil {
			mustBe(t, err, scim.InvalidPath, scim.InvalidFilter, scim.InvalidValue, scim.Mutability, scim.NoTarget)
			return
		}
		body, err := json.Marshal(after)
		if err != nil {
			t.Fatal(err)
		}
		again, err := users.Decode(body)
		if err != nil {
			t.Fatalf("%s leaves %s: %v", operation, body, err)
		}
		if diff := cmp.Diff(after, again); diff != "" {
			t.Fatalf("%s leaves %s, which reads as\n%s", operation, body, diff)
		}
	})
}

func TestSchemasAnnounceOnlyWhatIsServed(t *testing.T) {
	for _, s := range scim.Schemas(scim.NewUserType(false), scim.NewGroupType()) {
		text, err := json.Marshal(s.Describe("http://base"))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"password", "x509Certificates", "null", "writeOnly"} {
			if strings.Contains(string(text), `"`+word+`"`) || strings.Contains(string(text), ":null") {
				t.Errorf("%s announces %s: %s", s.URN, word, text)
			}
		}
	}
}
