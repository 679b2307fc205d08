package reqlog

// RecordLevel is the logging level of an entry.
type RecordLevel uint8

// Levels. The zero value is LevelMetadata.
const (
	LevelMetadata RecordLevel = iota // everything except bodies
	LevelFull                        // including bodies
	LevelNone                        // what the ledger needs: no text chosen by a client
)

var levels = [...]string{LevelMetadata: "metadata", LevelFull: "full", LevelNone: "none"}

// String returns the level's name.
func (l RecordLevel) String() string {
	if int(l) < len(levels) {
		return levels[l]
	}
	return levels[LevelMetadata]
}

// Bodies are the bodies of request and response, at [LevelFull].
type Bodies struct {
	Request, Response Body
}

// Len returns the number of bytes of data in b, zero for nil.
func (b *Bodies) Len() int {
	if b == nil {
		return 0
	}
	return len(b.Request.Data) + len(b.Response.Data)
}

// Body is a body as the client sent or received it, redacted.
type Body struct {
	Type string // content type, without parameters; empty if absent
	Data []byte // its beginning; nil if there was none
	Size int64  // complete size, before cutting and redaction
	Cut  bool   // Data is incomplete
}
