package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
)

// Secret is a credential inside a config. It is masked wherever it is printed;
// only Reveal returns it. The zero value is the empty credential.
type Secret struct{ value string }

// NewSecret returns value as a Secret.
func NewSecret(value string) Secret { return Secret{value} }

// Reveal returns the credential itself, for the one place that sends it.
func (s Secret) Reveal() string { return s.value }

// Empty reports whether the credential is empty.
func (s Secret) Empty() bool { return s.value == "" }

// Equal reports whether both are the same credential.
func (s Secret) Equal(other Secret) bool { return s.value == other.value }

// String returns dots, or an empty string for the empty credential.
func (s Secret) String() string {
	if s.value == "" {
		return ""
	}
	return dots
}

// Format writes dots for every verb.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// LogValue keeps the credential out of structured logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText keeps the credential out of JSON and other encodings.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

const dots = "•••"

// fingerprint returns what replaces a credential in the canonical form.
func fingerprint(credential string) string {
	sum := sha256.Sum256([]byte(credential))
	return "sha256:" + hex.EncodeToString(sum[:])
}
