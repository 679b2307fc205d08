package dataplane

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"modelgate/api"
)

// Limits of a W3C baggage header (Baggage, section 4.3.2). What exceeds them is
// ignored.
const (
	maxBaggage        = 8192
	maxBaggageMembers = 64
)

// baggage adds the members of the client's W3C baggage to the metadata.
// Existing keys win. A malformed member, or one longer than metadata may be, is
// ignored: baggage is not meant for the gateway in particular.
func baggage(a *admission) {
	bytes, members := 0, 0
	for _, line := range a.request.Received.Header["Baggage"] {
		if bytes += len(line); bytes > maxBaggage {
			return
		}
		for member := range strings.SplitSeq(line, ",") {
			if members++; members > maxBaggageMembers {
				return
			}
			if key, value, ok := baggageMember(member); ok {
				describe(a, key, value)
			}
		}
	}
}

// describe adds a key to the metadata if it is not there.
func describe(a *admission, key, value string) {
	if _, ok := a.request.Metadata[key]; ok {
		return
	}
	if a.request.Metadata == nil {
		a.request.Metadata = make(map[string]string, 4)
	}
	a.request.Metadata[key] = value
}

// baggageMember parses key=value;properties. The value is percent-encoded.
func baggageMember(s string) (key, value string, ok bool) {
	s, _, _ = strings.Cut(s, ";")
	key, value, ok = strings.Cut(s, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	plain, err := url.PathUnescape(value)
	if !ok || err != nil || key == "" || len(key) > api.MaxMetadataValue {
		return "", "", false
	}
	if !utf8.ValidString(plain) || utf8.RuneCountInString(plain) > api.MaxMetadataValue {
		return "", "", false
	}
	return key, plain, true
}
