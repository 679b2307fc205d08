package dataplane

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider"
)

// FileResolver knows the files that bodies of requests refer to. It is safe for concurrent
// use.
type FileResolver interface {
	// Resolve returns what takes the place of the files in a body at its target. Files that
	// stay as they are may be left out. An error says that the workspace does not have a
	// file, or that the target cannot get it.
	Resolve(ctx context.Context, q *FileQuery) (map[string]string, error)
}

// FileQuery asks for the files that a body refers to.
type FileQuery struct {
	Identity *access.Identity
	TraceID  string
	Client   api.Dialect // of the body

	// Files are ids and addresses as the body has them, each once.
	Files []string
	// Managed are the managed providers that the request may be sent to, in their order and
	// each once. There is one at least.
	Managed []*provider.Target
}

// maxFiles limits the files that a body refers to.
const maxFiles = 500

// geminiHost is the host of addresses of files of Gemini, which bodies of other dialects can
// have as addresses of media.
const geminiHost = "generativelanguage.googleapis.com"

// resolveFiles checks the files that the body refers to against the workspace, and replaces
// those that the target knows by another id. What keepers send has been checked by them.
func (a *admission) resolveFiles(ctx context.Context) error {
	p, doc := a.plane, a.request.Received.Doc
	if p.Files == nil || doc == nil || a.request.DryRun || a.call != nil && a.request.Manages || !mayReferToFiles(doc.Bytes()) {
		return nil
	}
	q := &FileQuery{Identity: a.request.Identity, TraceID: a.request.TraceID, Client: a.request.Dialect}
	for i := range a.request.Leaves {
		t := a.request.Leaves[i].Target
		if t != nil && t.Slug != "" && !slices.ContainsFunc(q.Managed, func(o *provider.Target) bool { return o.Slug == t.Slug }) {
			q.Managed = append(q.Managed, t)
		}
	}
	if len(q.Managed) == 0 {
		return nil
	}
	walk := fileWalk{messages: a.request.Dialect == api.DialectMessages, cursor: jsonedit.NewCursor(doc.Bytes())}
	walk.value()
	if q.Files = walk.files(); len(q.Files) == 0 {
		return nil
	}
	if len(q.Files) > maxFiles {
		return apierr.New(apierr.Invalid, "the body refers to more than %d files; divide the request", maxFiles).WithCode("too_many_files")
	}
	other, err := p.Files.Resolve(ctx, q)
	if err != nil || len(other) == 0 {
		return err
	}
	a.request.Edits = append(a.request.Edits, walk.edits(doc, other)...)
	return nil
}

// mayReferToFiles reports whether a body can have a member that refers to a file. Members
// written with escapes of letters are found by their escapes.
func mayReferToFiles(body []byte) bool {
	if bytes.Contains(body, []byte("ile_")) || bytes.Contains(body, []byte("ileUri")) || bytes.Contains(body, []byte(geminiHost)) {
		return true
	}
	for rest := body; ; {
		i := bytes.Index(rest, []byte(`\u00`))
		if i < 0 || i+4 >= len(rest) {
			return false
		}
		if c := rest[i+4]; c >= '4' && c <= '7' {
			return true
		}
		rest = rest[i+4:]
	}
}

// fileReference is a reference to a file in a body.
type fileReference struct {
	from, to int // of the value in the body, with its quotes
	file     string
}

// fileWalk finds the references to files in a body, in one pass.
type fileWalk struct {
	messages bool // the body is of the messages dialect
	cursor   *jsonedit.Cursor
	found    []fileReference
}

// unread are members whose content is data of clients, schemas, or what a provider has
// returned: an id in it makes no provider read a file.
var unread = []string{
	"metadata", "annotations", "results", "args", "response", "parameters", "input_schema", "schema", "properties", "json_schema",
}

// toolOutput are the types of objects with files that tools of a provider have created.
var toolOutput = []string{"code_execution_output", "bash_code_execution_output", "file_citation", "container_file_citation", "file_path"}

// object finds the references in the members of an object. The output of a tool has none,
// unless one of several types says that it is something else.
func (f *fileWalk) object() {
	before, types, outputs := len(f.found), 0, 0
	f.cursor.Enter('{')
	for {
		key, ok := f.cursor.Field()
		if !ok {
			break
		}
		name := string(jsonedit.Unescape(key))
		if kind := f.cursor.Kind(); name == "type" && kind == jsonedit.String {
			types++
			if slices.Contains(toolOutput, string(jsonedit.Unescape(f.cursor.Text()))) {
				outputs++
			}
			continue
		}
		f.member(name)
	}
	if types > 0 && types == outputs {
		f.found = f.found[:before]
	}
}

// member finds the references in the value of a member, which is next.
func (f *fileWalk) member(name string) {
	switch kind := f.cursor.Kind(); {
	case kind == jsonedit.String:
		f.text(name == "file_id" || name == "fileUri" || name == "file_uri")
	case name == "file_ids" && kind == jsonedit.Array:
		f.cursor.Enter('[')
		for f.cursor.Element() {
			if f.cursor.Kind() == jsonedit.String {
				f.text(true)
			} else {
				f.cursor.Skip()
			}
		}
	case f.messages && name == "input", slices.Contains(unread, name): // input is that of a tool
		f.cursor.Skip()
	default:
		f.value()
	}
}

// value finds the references in the next value, which is not a text.
func (f *fileWalk) value() {
	switch f.cursor.Kind() {
	case jsonedit.Object:
		f.object()
	case jsonedit.Array:
		f.cursor.Enter('[')
		for f.cursor.Element() {
			f.value()
		}
	default:
		f.cursor.Skip()
	}
}

// text reads a text, which is a reference if isFile is true or it is the address of a file of
// Gemini.
func (f *fileWalk) text(isFile bool) {
	from := f.cursor.Offset()
	text := f.cursor.Text()
	if len(text) == 0 || !isFile && (len(text) > 4*maxWord || text[0] != 'h' && text[0] != '\\') {
		return
	}
	file := string(jsonedit.Unescape(text))
	if isFile || strings.HasPrefix(file, "https://"+geminiHost+"/") {
		f.found = append(f.found, fileReference{from, f.cursor.Offset(), file})
	}
}

// files returns the references, each once.
func (f *fileWalk) files() (list []string) {
	for _, ref := range f.found {
		if !slices.Contains(list, ref.file) {
			if list = append(list, ref.file); len(list) > maxFiles {
				return list
			}
		}
	}
	return list
}

// edits returns the edits that replace references in a body.
func (f *fileWalk) edits(doc *jsonedit.Doc, other map[string]string) (list []jsonedit.Edit) {
	body := doc.Bytes()
	for key, v := range doc.Members() {
		begin := cap(body) - cap(v.Raw()) // its value is a part of the body
		end, at := begin+len(v.Raw()), begin
		var changed []byte
		for _, ref := range f.found {
			with, ok := other[ref.file]
			if !ok || ref.from < begin || ref.to > end {
				continue
			}
			changed = append(append(changed, body[at:ref.from]...), jsonedit.AppendString(nil, with)...)
			at = ref.to
		}
		if at > begin {
			list = append(list, jsonedit.Edit{Name: key.String(), Value: append(changed, body[at:end]...)})
		}
	}
	return list
}
