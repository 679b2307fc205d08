package vendorbatch

import (
	"encoding/json"

	"modelgate/internal/model/llm"
)

// Status is the state of a batch.
type Status string

// The eight states. Three lead to the end, and the last four are ends.
const (
	Validating Status = "validating"
	InProgress Status = "in_progress"
	Finalizing Status = "finalizing"
	Cancelling Status = "cancelling"
	Completed  Status = "completed"
	Failed     Status = "failed"
	Expired    Status = "expired"
	Cancelled  Status = "cancelled"
)

// Ended reports whether a batch in the state never changes again.
func (s Status) Ended() bool {
	return s == Completed || s == Failed || s == Expired || s == Cancelled
}

// Batch is a batch as clients see it. Times are Unix seconds, zero before the batch
// has reached them. What a vendor does not report is empty: the caller has it in its
// own record, from the request that created the batch.
type Batch struct {
	ID               string            `json:"id"` // of the vendor
	Object           string            `json:"object"`
	Endpoint         string            `json:"endpoint"`
	Model            string            `json:"model,omitempty"`
	Errors           *Errors           `json:"errors"`
	InputFileID      string            `json:"input_file_id"`
	CompletionWindow string            `json:"completion_window"`
	Status           Status            `json:"status"`
	OutputFileID     string            `json:"output_file_id,omitempty"` // of the vendor
	ErrorFileID      string            `json:"error_file_id,omitempty"`  // of the vendor
	CreatedAt        int64             `json:"created_at"`
	InProgressAt     int64             `json:"in_progress_at,omitempty"`
	ExpiresAt        int64             `json:"expires_at,omitempty"`
	FinalizingAt     int64             `json:"finalizing_at,omitempty"`
	CompletedAt      int64             `json:"completed_at,omitempty"`
	FailedAt         int64             `json:"failed_at,omitempty"`
	ExpiredAt        int64             `json:"expired_at,omitempty"`
	CancellingAt     int64             `json:"cancelling_at,omitempty"`
	CancelledAt      int64             `json:"cancelled_at,omitempty"`
	RequestCounts    Counts            `json:"request_counts"`
	Usage            *Usage            `json:"usage,omitempty"`
	Metadata         map[string]string `json:"metadata"` // of the client; nil for none

	// OwnID is the record's id that the batch was created with, empty if the vendor
	// does not report it.
	OwnID string `json:"-"`
	// VendorStatus is the state in the vendor's spelling. UnknownStatus is true if
	// it is not documented: Status is a guess then, and the operator should know.
	VendorStatus  string `json:"-"`
	UnknownStatus bool   `json:"-"`
	// Output is where the results are, in the vendor's own form. Empty if they are
	// not there yet, or if the vendor finds them by id.
	Output string `json:"-"`

	inlined []json.RawMessage // results that the vendor returns with the batch
}

// Counts are the requests of a batch. Total may be zero until the vendor has read the
// input.
type Counts struct {
	Total     int64 `json:"total"`
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
}

// Usage is what a batch used.
type Usage struct {
	InputTokens         int64         `json:"input_tokens"`
	InputTokensDetails  InputDetails  `json:"input_tokens_details"`
	OutputTokens        int64         `json:"output_tokens"`
	OutputTokensDetails OutputDetails `json:"output_tokens_details"`
	TotalTokens         int64         `json:"total_tokens"`
}

// InputDetails is the part of the input that was read from a cache.
type InputDetails struct {
	CachedTokens int64 `json:"cached_tokens"`
}

// OutputDetails is the part of the output that was reasoning.
type OutputDetails struct {
	ReasoningTokens int64 `json:"reasoning_tokens"`
}

// Add adds what a line used. Unknown usage adds nothing.
func (u *Usage) Add(line llm.Usage) {
	if !line.Known {
		return
	}
	u.InputTokens += line.Prompt()
	u.InputTokensDetails.CachedTokens += line.CachedInput
	u.OutputTokens += line.Completion()
	u.OutputTokensDetails.ReasoningTokens += line.Reasoning
	u.TotalTokens += line.Total()
}

// Errors are what is wrong with an input. As an error it says why no batch was
// created; in a batch it is the vendor's answer.
type Errors struct {
	Object string      `json:"object"` // list
	Data   []LineError `json:"data"`
}

// LineError is one thing that is wrong.
type LineError struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"` // member of the line; nil if it is about all of it
	Line    *int    `json:"line"`  // from 1; nil if it is about the input
}

// maxErrors is how many errors of an input are collected.
const maxErrors = 100

// Error returns the first message.
func (e *Errors) Error() string {
	if len(e.Data) == 0 {
		return "the input of the batch is invalid"
	}
	return e.Data[0].Message
}

// isFull reports whether no more errors are collected.
func (e *Errors) isFull() bool { return len(e.Data) >= maxErrors }

// add adds an error, unless there are enough. A line of 0 is the input, and an empty
// param all of the line.
func (e *Errors) add(line int, code, param, message string) {
	if e.isFull() {
		return
	}
	item := LineError{Code: code, Message: message}
	if line > 0 {
		item.Line = &line
	}
	if param != "" {
		item.Param = &param
	}
	e.Object, e.Data = "list", append(e.Data, item)
}

// orNil returns e, or nil if nothing is wrong.
func (e *Errors) orNil() error {
	if len(e.Data) == 0 {
		return nil
	}
	return e
}
