// Package secret hides credentials.
//
// A [String] prints as dots wherever it goes: fmt, log/slog, JSON, text. Only
// [String.Reveal] returns the value, so every use can be found by that name. The
// package does not decide where credentials come from or which origin receives them.
package secret

import (
	"fmt"
	"log/slog"
)

const dots = "•••"

// String is a credential. The zero value is the empty credential. Values may
// be copied and compared with [String.Empty]; they are safe for concurrent use.
type String struct{ value string }

// New wraps value.
func New(value string) String { return String{value} }

// Reveal returns the credential itself, for the one place that sends it.
func (s String) Reveal() string { return s.value }

// Empty reports whether there is no credential.
func (s String) Empty() bool { return s.value == "" }

// String returns dots, or nothing for the empty credential.
func (s String) String() string {
	if s.value == "" {
		return ""
	}
	return dots
}

// Format writes dots for every verb, so that %v, %+v, %#v, %q and %x are alike.
func (s String) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// LogValue keeps the credential out of structured logs.
func (s String) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText keeps the credential out of JSON, YAML and text encodings.
func (s String) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
