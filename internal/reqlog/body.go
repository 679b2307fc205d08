package reqlog

import "fmt"

// RecordLevel is how much of an exchange is kept.
type RecordLevel uint8

// Levels. The zero value is LevelMetadata.
const (
	LevelMetadata RecordLevel = iota // what an Entry holds, without bodies
	LevelFull                        // with bodies
	LevelNone                        // what the books need: no text that a client chose
)

var levels = [...]string{LevelMetadata: "metadata", LevelFull: "full", LevelNone: "none"}

// String returns the level's name.
func (l RecordLevel) String() string {
	if int(l) < len(levels) {
		return levels[l]
	}
	return levels[LevelMetadata]
}

// ParseLevel reads the name of a level. The empty one is LevelMetadata.
func ParseLevel(name string) (RecordLevel, error) {
	for l, n := range levels {
		if n == name {
			return RecordLevel(l), nil
		}
	}
	if name == "" {
		return LevelMetadata, nil
	}
	return 0, fmt.Errorf("%.40q is no level of logging; there are full, metadata and none", name)
}

// Bodies are what a client sent and what it was sent, at [LevelFull].
type Bodies struct {
	Request, Response Body
}

// Len returns how many bytes of data b holds, zero for nil.
func (b *Bodies) Len() int {
	if b == nil {
		return 0
	}
	return len(b.Request.Data) + len(b.Response.Data)
}

// Body is a body as the client knows it, redacted.
type Body struct {
	Type string // content type, without parameters; empty when it was not said
	Data []byte // the beginning of it; nil when there was none
	Size int64  // of the whole, before it was cut or redacted
	Cut  bool   // Data is not all of it
}
