package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"modelgate/internal/base/oserr"
	"modelgate/internal/base/secret"
)

// Limits of a file in bytes: of one for a running gateway, and of one with the state of
// the control plane.
const (
	maxFile  = 8 << 20
	maxState = 256 << 20
)

// FileError describes an error in a file, in one line.
type FileError struct {
	File         string
	Line, Column int    // 1-based; zero if unknown
	Path         string // such as providers[2].api_key; empty if unknown
	Problem      string
	Cause        error // what found the problem; nil if nothing else did
}

// Error returns the problem after its place: file, line, column and path.
func (e *FileError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	b.WriteString(": ")
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Problem)
	return b.String()
}

// SecretResolver turns references into credentials.
type SecretResolver struct {
	Env func(name string) (string, bool) // os.LookupEnv
	Box *secret.Box                      // nil without a master key
}

// Load reads the file of a gateway. For a missing file errors.Is reports
// fs.ErrNotExist.
func Load(path string, o SecretResolver) (*Settings, error) {
	b, err := readFile(path, maxFile)
	if err != nil {
		return nil, err
	}
	return Parse(path, b, o)
}

// LoadState reads a file that may contain any control-plane objects. Errors are the
// same as those of [Load].
func LoadState(path string, o SecretResolver) (*Settings, error) {
	b, err := readFile(path, maxState)
	if err != nil {
		return nil, err
	}
	return ParseState(path, b, o)
}

// readFile returns the content of a file, cut after most+1 bytes.
func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, oserr.File(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	return b, oserr.File(err)
}

// Parse parses the content of a gateway's file and opens its credentials. An error is a
// *FileError, or several joined: one for each environment variable that is not set.
func Parse(file string, b []byte, o SecretResolver) (*Settings, error) {
	if len(b) > maxFile {
		return nil, tooLarge(file, maxFile)
	}
	s, err := parse(file, b, o)
	if err != nil {
		return nil, err
	}
	if f := s.checkRun(); f != nil {
		return nil, s.ErrorAt(f.path, f.err)
	}
	return s, nil
}

// ParseState parses the content of a file that may contain any control-plane objects.
// Errors are the same as those of [Parse].
func ParseState(file string, b []byte, o SecretResolver) (*Settings, error) {
	if len(b) > maxState {
		return nil, tooLarge(file, maxState)
	}
	return parse(file, b, o)
}

func tooLarge(file string, most int) error {
	return &FileError{File: file, Problem: fmt.Sprintf("the file is larger than %d bytes", most)}
}

func parse(file string, b []byte, o SecretResolver) (*Settings, error) {
	s := &Settings{file: file, source: b}
	tree, err := parser.ParseBytes(b, 0)
	if err != nil {
		return nil, syntaxError(file, err)
	}
	if len(tree.Docs) == 0 || tree.Docs[0].Body == nil { // an empty file
		return s, nil
	}
	if err := checkAliases(file, tree); err != nil {
		return nil, err
	}
	root := tree.Docs[0].Body
	if err := yaml.NodeToValue(root, s, yaml.Strict()); err != nil {
		return nil, syntaxError(file, err)
	}
	if m, ok := root.(*ast.MappingNode); ok {
		for _, v := range m.Values {
			s.sections = append(s.sections, v.Key.GetToken().Value)
		}
	}
	unset := unsetVariables{lookup: o.Env}
	o.Env = unset.find
	f := s.check(o)
	if err := unset.report(file, root); err != nil {
		return nil, err
	}
	if f == nil {
		f = checkSchema(root)
	}
	if f != nil {
		return nil, s.ErrorAt(f.path, f.err)
	}
	return s, nil
}

// ErrorAt returns err with its path in the file, such as providers[2].api_key.
func (s *Settings) ErrorAt(path string, err error) *FileError {
	e := &FileError{File: s.file, Path: path, Problem: err.Error()}
	e.Line, e.Column = place(s.source, path)
	return e
}

func syntaxError(file string, err error) error {
	if e, ok := errors.AsType[*FileError](err); ok { // an error with a position
		e.File = file
		return e
	}
	e := &FileError{File: file, Problem: err.Error()}
	if y, ok := errors.AsType[yaml.Error](err); ok {
		e.Problem = y.GetMessage()
		if t := y.GetToken(); t != nil {
			e.Line, e.Column = t.Position.Line, t.Position.Column
		}
	}
	e.Problem, _, _ = strings.Cut(e.Problem, "\n")
	return e
}

// place finds the position of a path in the file. If a field is missing it returns the
// position of its parent.
func place(b []byte, path string) (line, column int) {
	f, err := parser.ParseBytes(b, 0)
	if err != nil {
		return 0, 0
	}
	for path != "" {
		p, err := yaml.PathString("$." + path)
		if err != nil {
			return 0, 0
		}
		if n, err := p.FilterFile(f); err == nil && n != nil {
			return position(n)
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 0, 0
}

func position(n ast.Node) (line, column int) {
	t := n.GetToken()
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
		t = m.Values[0].Key.GetToken()
	}
	return t.Position.Line, t.Position.Column
}

var envForm = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$`)

// Open returns the credential of a reference. The reference may itself be a credential
// in plain text, so errors never contain it.
func (o SecretResolver) Open(ref string) (secret.String, error) {
	if ref == "" {
		return secret.String{}, nil
	}
	if m := envForm.FindStringSubmatch(ref); m != nil {
		v, ok := o.Env(m[1])
		s, err := secret.Parse(v)
		switch {
		case !ok || s.Empty() && err == nil:
			return secret.String{}, fmt.Errorf("the environment variable %s is not set", m[1])
		case err != nil:
			return secret.String{}, fmt.Errorf("the environment variable %s %w", m[1], err)
		}
		return s, nil
	}
	if !secret.IsSealed(ref) {
		return secret.String{},
			errors.New("plaintext credentials are not allowed; use ${NAME} for an environment variable or the output of `modelgate seal`")
	}
	if o.Box == nil {
		return secret.String{}, errors.New("a sealed value requires the master key; set MODELGATE_MASTER_KEY or --master-key-file")
	}
	s, err := o.Box.Open(ref)
	if err != nil {
		return secret.String{}, err
	}
	if s, err = secret.Parse(s.Reveal()); err != nil {
		return secret.String{}, fmt.Errorf("the sealed value %w", err)
	}
	return s, nil
}

// isReference reports whether Open accepts a text.
func isReference(text string) bool { return envForm.MatchString(text) || secret.IsSealed(text) }

// KeptCredential is the mark in a file for a credential of a config that keeps its
// stored value.
const KeptCredential = "***"

// UnmarshalYAML stores a mapping as JSON in its original order.
func (o *Object) UnmarshalYAML(n ast.Node) error {
	var v any
	if err := yaml.NodeToValue(n, &v, yaml.UseOrderedMap()); err != nil {
		return err
	}
	if _, ok := v.(yaml.MapSlice); !ok && v != nil {
		return wrongValue(n, "must be a mapping")
	}
	text, err := appendJSON(nil, v)
	if err != nil {
		return wrongValue(n, "cannot be represented in JSON: %v", err)
	}
	*o = text
	return nil
}

// appendJSON encodes a YAML value as JSON.
func appendJSON(b []byte, v any) ([]byte, error) {
	var err error
	switch v := v.(type) {
	case yaml.MapSlice:
		b = append(b, '{')
		for i, m := range v {
			if i > 0 {
				b = append(b, ',')
			}
			name, ok := m.Key.(string)
			if !ok {
				name = fmt.Sprint(m.Key)
			}
			if b, err = appendJSON(b, name); err != nil {
				return nil, err
			}
			if b, err = appendJSON(append(b, ':'), m.Value); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendJSON(b, item); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	}
	text, err := json.Marshal(v)
	return append(b, text...), err
}

// UnmarshalYAML parses a size.
func (s *Size) UnmarshalYAML(n ast.Node) error {
	v, err := ParseSize(n.GetToken().Value)
	if err != nil {
		return wrongValue(n, "%v", err)
	}
	*s = v
	return nil
}

// ParseSize parses a size in the format of the file.
func ParseSize(text string) (Size, error) {
	number, unit := text, ""
	if i := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		number, unit = text[:i], strings.TrimSpace(text[i:])
	}
	v, err := strconv.ParseInt(number, 10, 64)
	shift, ok := map[string]uint{"": 0, "B": 0, "KB": 10, "MB": 20, "GB": 30}[strings.ToUpper(unit)]
	if err != nil || !ok || v > 1<<33 {
		return 0, fmt.Errorf("a size must be a number of bytes, or a number with KB, MB or GB, not %.40q", text)
	}
	return Size(v << shift), nil
}

// UnmarshalYAML parses a duration.
func (d *Duration) UnmarshalYAML(n ast.Node) error {
	text := n.GetToken().Value
	v, err := time.ParseDuration(text)
	if err != nil {
		return wrongValue(n, "a duration must be a number with ms, s, m or h, such as 30s, not %.40q", text)
	}
	*d = Duration(v)
	return nil
}

func wrongValue(n ast.Node, format string, args ...any) error {
	line, column := position(n)
	return &FileError{Line: line, Column: column, Path: strings.TrimPrefix(n.GetPath(), "$."), Problem: fmt.Sprintf(format, args...)}
}
