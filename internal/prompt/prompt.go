// Package prompt builds requests from saved prompts.
//
// A [Saved] prompt has numbered versions, of which requests name one; a version
// is a template and the settings that go with it. [Render] fills the template
// and returns a request's body. It guarantees that the value of a
// variable stays text: it never ends the JSON string it is in and is never a template
// itself. Rendering takes bounded time and memory for any variables. The package does
// not store prompts (see store) or decide who may use them (see snapshot).
package prompt

import (
	"strconv"
	"strings"
)

// Saved is a prompt, or a partial, with the versions that requests may name. It
// is immutable once published.
type Saved struct {
	Workspace string // id
	ID        string
	Slug      string
	Published int64     // number of the version that counts where none is named
	Versions  []Version // by number, the first the lowest
}

// Version is one state of a prompt or a partial.
type Version struct {
	ID     string
	Number int64  // from 1
	Label  string // empty for none

	// Text is a [Content] as JSON, or the template of a partial.
	Text string
}

// Cut parts a reference into the name of a prompt and which version is meant:
// pp-x, pp-x@latest, pp-x@3, pp-x@production.
func Cut(ref string) (name, version string) {
	name, version, _ = strings.Cut(ref, "@")
	return name, version
}

// Version returns the version that is meant: the published one by the empty
// word or default, the newest by latest, another by its number or label.
func (s *Saved) Version(which string) (*Version, bool) {
	if len(s.Versions) == 0 {
		return nil, false
	}
	number := s.Published
	switch which {
	case "", "default":
	case "latest":
		return &s.Versions[len(s.Versions)-1], true
	default:
		n, err := strconv.ParseInt(which, 10, 64)
		if err != nil {
			return s.labelled(which)
		}
		number = n
	}
	for i := range s.Versions {
		if s.Versions[i].Number == number {
			return &s.Versions[i], true
		}
	}
	return nil, false
}

func (s *Saved) labelled(label string) (*Version, bool) {
	for i := range s.Versions {
		if s.Versions[i].Label == label {
			return &s.Versions[i], true
		}
	}
	return nil, false
}
