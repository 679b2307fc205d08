package vendorbatch

import (
	"context"
	"iter"
	"time"
)

// Line is a request of a batch, in the format of OpenAI's input files. It was
// validated: CustomID is unique, and Body is a JSON object.
type Line struct {
	Number   int   // from 1
	Offset   int64 // of its first byte in the input; see [Input].Line
	CustomID string
	Method   string
	URL      string
	Body     []byte // valid until the next line is read
}

// Input is what a batch is created from. Everything but Endpoint and Lines, or
// FileID, may be empty.
type Input struct {
	Endpoint string // such as /v1/chat/completions; the URL of every line
	Window   string // such as 24h
	// Model is the upstream model of all lines. Empty means that each line names its
	// own, as the vendor knows it.
	Model string
	// BaseModel is the model that Model is another name for; empty if it is Model.
	BaseModel string
	Name      string // for people, in the vendor's console
	Metadata  map[string]string
	// OwnID is the id of the caller's record. The vendor gets it with the batch, so
	// that [Vendor].Find can find a batch whose creation was not answered. It may
	// have letters, digits, hyphens and underscores.
	OwnID string
	// Lines returns the lines in order. It is called several times, and read by one
	// goroutine at a time. Nil if only the vendor has the input, as FileID: nothing can
	// be checked then.
	Lines func() iter.Seq2[Line, error]
	// Line returns the line at an offset; its Body is valid until the next call.
	// Results mostly come in the order of the lines. If it is nil, results are
	// translated without the request that they answer, which loses the names of
	// tools that the vendor's rules changed, and encoding_format.
	Line func(offset int64) (Line, error)
	// FileID is the input as a file of the vendor, in the vendor's format. With it
	// nothing is uploaded.
	FileID string
	// Options are those of the provider and the request, such as project_id,
	// region and role_arn; see [Vendor].Settings.
	Options map[string]string
	// Keyless is true if a client made the input in the vendor's own format: keys of results
	// may be missing or the same, and each result counts.
	Keyless bool
	// Relayed is set if the client's own body created the batch, so that the vendor does not
	// know OwnID.
	Relayed *Relayed
	// Lenient keeps members of responses that are not part of the endpoint's format.
	Lenient bool
}

// option returns an option, empty if it is not set.
func (in *Input) option(name string) string { return in.Options[name] }

// Relayed is what [Vendor].Find looks for instead of the id of the record. The oldest batch
// of the same input that no other record has is that of the client's request.
type Relayed struct {
	FileID, Endpoint string
	From, Until      time.Time // of its creation
	// IsTaken reports whether another record has the batch with the vendor's id.
	IsTaken func(ctx context.Context, id string) (bool, error)
}

// matches reports whether a batch may be the one that was relayed.
func (r *Relayed) matches(b *openAIBatch) bool {
	at := time.Unix(int64(b.CreatedAt), 0)
	return b.InputFileID == r.FileID && b.Endpoint == r.Endpoint && !at.Before(r.From) && !at.After(r.Until)
}
