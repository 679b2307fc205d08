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
func (x *exchange) baggage() {
	bytes, members := 0, 0
	for _, line := range x.Received.Header["Baggage"] {
		if bytes += len(line); bytes > maxBaggage {
			return
		}
		for member := range strings.SplitSeq(line, ",") {
			if members++; members > maxBaggageMembers {
				return
			}
			if key, value, ok := baggageMember(member); ok {
				x.describe(key, value)
			}
		}
	}
}

// describe adds a key to the metadata if it is not there.
func (x *exchange) describe(key, value string) {
	if _, ok := x.Metadata[key]; ok {
		return
	}
	if x.Metadata == nil {
		x.Metadata = make(map[string]string, 4)
	}
	x.Metadata[key] = value
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
