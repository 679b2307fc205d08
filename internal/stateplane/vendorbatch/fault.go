package vendorbatch

import (
	"errors"
	"strconv"

	"modelgate/internal/dialect"
)

var errNoID = errors.New("the response has no valid id")

// maxID is the length of the longest id of a batch; ARNs have up to 1011 characters.
const maxID = 1024

func isID(s string) bool { return s != "" && len(s) <= maxID }

// messageOf returns the readable message of an error, cut to a sensible length.
func messageOf(raw []byte, text string) string {
	if text != "" {
		raw = []byte(text)
	}
	return first(dialect.ErrorMessage(raw), "the provider reported an error without a message")
}

// rpcCodes are the names of the codes of Google's errors.
// https://cloud.google.com/apis/design/errors#handling_errors
var rpcCodes = []string{
	"", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
	"UNAUTHENTICATED",
}

// codeOfNumber returns the code of an error for a number: one of Google's, or a status.
func codeOfNumber(n int64) string {
	if n > 0 && n < int64(len(rpcCodes)) {
		return rpcCodes[n]
	}
	return strconv.FormatInt(n, 10)
}
