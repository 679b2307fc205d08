package scim

import (
	"fmt"
	"net/http"
)

// Error is an error of RFC 7644. Administrators of a directory read its detail.
type Error struct {
	Status int
	Type   string // scimType; empty for none
	Detail string
}

// Types of errors, the scimType of RFC 7644.
const (
	InvalidFilter = "invalidFilter"
	InvalidPath   = "invalidPath"
	InvalidSyntax = "invalidSyntax"
	InvalidValue  = "invalidValue"
	Mutability    = "mutability"
	NoTarget      = "noTarget"
	TooMany       = "tooMany"
	Uniqueness    = "uniqueness"
)

// Errorf returns an error with status 400, or 409 for one of uniqueness.
func Errorf(kind, format string, args ...any) *Error {
	status := http.StatusBadRequest
	if kind == Uniqueness {
		status = http.StatusConflict
	}
	return &Error{Status: status, Type: kind, Detail: fmt.Sprintf(format, args...)}
}

// Error implements error.
func (e *Error) Error() string { return e.Detail }
