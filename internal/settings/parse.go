package settings

import (
	"bytes"
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

	"modelgate/internal/secret"
)

// maxFile bounds the file, in bytes.
const maxFile = 8 << 20

// FileError says where a file is wrong, in one line.
type FileError struct {
	File         string
	Line, Column int    // 1-based; zero when the place is not known
	Path         string // such as providers[2].api_key; empty when not known
	Problem      string
}

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

// Opener turns references into credentials.
type Opener struct {
	Env func(name string) (string, bool) // os.LookupEnv
	Box *secret.Box                      // nil when no master key was given
}

// Load reads the file at path. An absent file is an error that errors.Is
// reports as fs.ErrNotExist.
func Load(path string, o Opener) (*Settings, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	return Parse(path, b, o)
}

// Parse reads b, the content of file, and opens the credentials in it. The
// error is a *FileError.
func Parse(file string, b []byte, o Opener) (*Settings, error) {
	if len(b) > maxFile {
		return nil, &FileError{File: file, Problem: fmt.Sprintf("the file is larger than %d bytes", maxFile)}
	}
	s := new(Settings)
	err := yaml.NewDecoder(bytes.NewReader(b), yaml.Strict()).Decode(s)
	if err != nil && err != io.EOF { // an empty file is one that says nothing
		return nil, syntaxError(file, err)
	}
	if f := s.check(o); f != nil {
		e := &FileError{File: file, Path: f.path, Problem: f.err.Error()}
		e.Line, e.Column = place(b, f.path)
		return nil, e
	}
	return s, nil
}

func syntaxError(file string, err error) error {
	if e, ok := errors.AsType[*FileError](err); ok { // a value's own judgement
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

// place finds the line of a path in the file. A path that is not there, since
// a field is missing, gives the place of its parent.
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

// open turns a reference into a credential. The reference itself may be a
// credential that someone wrote plainly, so it is never repeated.
func (o Opener) open(ref string) (secret.String, error) {
	if ref == "" {
		return secret.String{}, nil
	}
	if m := envForm.FindStringSubmatch(ref); m != nil {
		v, ok := o.Env(m[1])
		if !ok || v == "" {
			return secret.String{}, fmt.Errorf("the environment variable %s is not set", m[1])
		}
		return secret.New(v), nil
	}
	if !secret.Sealed(ref) {
		return secret.String{}, errors.New("a credential does not stand here plainly; write ${NAME} for an environment variable, or what `modelgate seal` prints")
	}
	if o.Box == nil {
		return secret.String{}, errors.New("a sealed value needs the master key; set MODELGATE_MASTER_KEY or --master-key-file")
	}
	return o.Box.Open(ref)
}

// UnmarshalYAML keeps a mapping as JSON.
func (o *Object) UnmarshalYAML(b []byte) error {
	text, err := yaml.YAMLToJSON(b)
	*o = bytes.TrimSpace(text)
	return err
}

// UnmarshalYAML reads a size.
func (s *Size) UnmarshalYAML(n ast.Node) error {
	text := n.GetToken().Value
	number, unit := text, ""
	if i := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		number, unit = text[:i], strings.TrimSpace(text[i:])
	}
	v, err := strconv.ParseInt(number, 10, 64)
	shift, ok := map[string]uint{"": 0, "B": 0, "KB": 10, "MB": 20, "GB": 30}[strings.ToUpper(unit)]
	if err != nil || !ok || v > 1<<33 {
		return wrongValue(n, "a size is a number of bytes, or one with KB, MB or GB; not %.40q", text)
	}
	*s = Size(v << shift)
	return nil
}

// UnmarshalYAML reads a duration.
func (d *Duration) UnmarshalYAML(n ast.Node) error {
	text := n.GetToken().Value
	v, err := time.ParseDuration(text)
	if err != nil {
		return wrongValue(n, "a duration is a number with ms, s, m or h, as 30s; not %.40q", text)
	}
	*d = Duration(v)
	return nil
}

func wrongValue(n ast.Node, format string, args ...any) error {
	line, column := position(n)
	return &FileError{Line: line, Column: column, Path: strings.TrimPrefix(n.GetPath(), "$."), Problem: fmt.Sprintf(format, args...)}
}
