package guardrail

import (
	"errors"
	"fmt"
	"net/http"
)

// incomplete is the error that [NewIncomplete] returns.
type incomplete struct{ message string }

// Error returns the message.
func (e *incomplete) Error() string { return e.message }

// NewIncomplete returns the error of a check that could not read all of the text, or what it
// decides on, because of what was sent. The message names the bound and says what to do. [Run]
// denies if the hook denies, or if the check would have changed the text, whatever
// failOnError says.
func NewIncomplete(format string, args ...any) error {
	return &incomplete{fmt.Sprintf(format, args...)}
}

// RefusesText reports whether a service that answers with the status refuses what it was sent,
// such as for its size, its encoding or its content, so that it has not read it.
func RefusesText(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity:
		return true
	}
	return false
}

func isIncomplete(err error) bool {
	_, ok := errors.AsType[*incomplete](err)
	return ok
}

// denies reports whether an error of a check of the hook denies what it checked: the check
// did not read it completely, or the hook fails closed.
func (h *Hook) denies(c *Check, r *CheckResult) bool {
	if r.Error == nil || !r.Incomplete && !h.FailClosed {
		return false
	}
	return h.Deny || h.DenyPassed || c.transforms()
}
