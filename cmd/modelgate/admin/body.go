package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"modelgate/cmd/modelgate/gateway"
	"modelgate/internal/base/oserr"
	"modelgate/internal/identity/access"
)

// buildBody returns the members of the body from the file, the argument and the flags, in
// this order: a flag replaces what the file has. It returns nil for a route without a body.
func (c *call) buildBody() (map[string]any, error) {
	in := c.in
	if len(in.route.Body) == 0 {
		return nil, nil
	}
	body := make(map[string]any)
	if in.file != "" {
		text, err := c.env.readFile(in.file)
		if err != nil {
			return nil, err
		}
		object, err := asJSON(text, in.file)
		if err != nil {
			return nil, err
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(object, &members) != nil {
			return nil, fmt.Errorf("%s must have an object", fileName(in.file))
		}
		for name, v := range members {
			body[name] = v
		}
	}
	for _, i := range in.body {
		texts := i.texts
		if i.field.Name == in.verb.arg && in.arg != "" {
			if len(texts) > 0 {
				return nil, c.env.Usage("%q and --%s are the same; give one of them", in.arg, flagName(i.field.Name))
			}
			texts = []string{in.arg}
		}
		if len(texts) == 0 {
			continue
		}
		if i.field.Name == "scopes" && c.verb.grants != "" && slices.Equal(texts, []string{"all"}) {
			texts = nil
			for _, s := range access.Scopes(c.verb.grants) {
				texts = append(texts, string(s))
			}
		}
		v, err := (&input{i.field, texts}).value(c.env)
		if err != nil {
			return nil, c.env.Usage("--%s %w", flagName(i.field.Name), err)
		}
		if v, err = c.resolveValue(i.field, v); err != nil {
			return nil, err
		}
		if workspaceRank(i) == 0 {
			c.workspace, _ = v.(string)
		}
		if err := setMember(body, i.field.Name, v); err != nil {
			return nil, c.env.Usage("--%s %w", flagName(i.field.Name), err)
		}
	}
	if err := c.applyShorts(body); err != nil {
		return nil, err
	}
	for _, name := range in.clear {
		if err := c.clearMember(body, name); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// applyShorts sets what the short forms set.
func (c *call) applyShorts(body map[string]any) error {
	for _, i := range c.in.shorts {
		at := slices.IndexFunc(shortForms, func(s *shortForm) bool { return &s.field == i.field })
		if len(i.texts) == 0 || at < 0 {
			continue
		}
		if err := shortForms[at].apply(body, i.texts); err != nil {
			return c.env.Usage("--%s %w", i.field.Name, err)
		}
	}
	return nil
}

// clearMember sets a member to null.
func (c *call) clearMember(body map[string]any, name string) error {
	names := c.in.nullable()
	if !slices.Contains(names, name) {
		return c.env.Usage("--clear %.60q must be %s", name, orList(names))
	}
	for _, f := range c.in.route.Body {
		member := f.Name
		if top, _, nested := strings.Cut(member, "."); nested && flagName(top) == name {
			member = top
		}
		if flagName(member) == name {
			return setMember(body, member, nil)
		}
	}
	return nil
}

// setMember sets a member of an object, or of objects in it.
func setMember(body map[string]any, name string, v any) error {
	at := body
	path := strings.Split(name, ".")
	for _, step := range path[:len(path)-1] {
		switch inner := at[step].(type) {
		case map[string]any:
			at = inner
		case nil:
			fresh := make(map[string]any)
			at[step], at = fresh, fresh
		case json.RawMessage: // of the file
			var members map[string]json.RawMessage
			if json.Unmarshal(inner, &members) != nil {
				return fmt.Errorf("cannot change %s in the file, which is not an object", step)
			}
			fresh := make(map[string]any)
			for k, raw := range members {
				fresh[k] = raw
			}
			at[step], at = fresh, fresh
		default:
			return fmt.Errorf("cannot be combined with --%s", flagName(step))
		}
	}
	at[path[len(path)-1]] = v
	return nil
}

// checkRequired returns an error that names a required member without a value.
func (c *call) checkRequired(body map[string]any) error {
	for _, f := range c.in.route.Body {
		top, _, nested := strings.Cut(f.Name, ".")
		if _, ok := body[top]; f.Required && !nested && !ok && f.Name != c.verb.named {
			name := "--" + flagName(f.Name)
			if f.Name == c.verb.arg {
				name = strings.ToUpper(flagName(f.Name)) + " (or " + name + ")"
			}
			return c.env.Usage("%s is required", name)
		}
	}
	for _, f := range c.in.route.Query {
		if f.Required && !c.query.Has(f.Name) {
			return c.env.Usage("--%s is required", flagName(f.Name))
		}
	}
	return nil
}

// upload sends a form with the content of a file, and the other members as fields. The file is
// not held in memory.
func (c *call) upload(body map[string]any) ([]byte, error) {
	name, _ := body[c.verb.form].(string)
	file := io.NopCloser(c.env.In)
	if name != "-" {
		opened, err := os.Open(name)
		if err != nil {
			return nil, oserr.File(err)
		}
		file = opened
	}
	defer file.Close()
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	for _, f := range c.in.route.Body {
		v, ok := body[f.Name]
		if !ok || f.Name == c.verb.form {
			continue
		}
		if err := w.WriteField(f.Name, fmt.Sprint(v)); err != nil {
			return nil, err
		}
	}
	if _, err := w.CreateFormFile(c.verb.form, filepath.Base(name)); err != nil {
		return nil, err
	}
	head := out.Len()
	if err := w.Close(); err != nil {
		return nil, err
	}
	form := io.MultiReader(bytes.NewReader(out.Bytes()[:head]), file, bytes.NewReader(out.Bytes()[head:]))
	return c.to.Do(c.ctx, gateway.Request{Method: c.route.Method, Path: c.path(nil), Query: c.query, Stream: form,
		Type: w.FormDataContentType()})
}

// download prints the content of a file, which is not held in memory.
func (c *call) download() error {
	if err := c.checkArgs(); err != nil {
		return err
	}
	content, err := c.to.Open(c.ctx, gateway.Request{Method: c.route.Method, Path: c.path(c.in.args), Query: c.query})
	if err != nil {
		return err
	}
	defer content.Close()
	_, err = io.Copy(c.env.Out, content)
	return err
}
