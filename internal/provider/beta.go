package provider

import (
	"net/http"
	"strings"

	"modelgate/api"
)

// betaHeader carries the beta flags of one vendor's protocol, comma separated.
const betaHeader = "Anthropic-Beta"

// Betas says which beta flags a host takes. The zero value takes all; a host
// that refuses a request for a flag it does not know lists those it does.
type Betas struct {
	Allow  []string          // the only flags taken; nil takes all
	Drop   []string          // prefixes of flags that are left out
	Rename map[string]string // prefixes of flags to the host's own flag
}

// BodyBetas takes the beta flags out of h where the host wants them in the body
// of op, and returns the field they belong to, those that the host takes and
// those that it doesn't. The field is empty where the header stays.
func (s *Spec) BodyBetas(op api.Operation, h http.Header) (field string, taken, dropped []string) {
	field = s.BodyRules[op].Betas
	if field == "" {
		return "", nil, nil
	}
	dropped = s.Betas.filter(h)
	for flag := range strings.SplitSeq(strings.Join(h[betaHeader], ","), ",") {
		if flag = strings.TrimSpace(flag); flag != "" {
			taken = append(taken, flag)
		}
	}
	delete(h, betaHeader)
	return field, taken, dropped
}

// filter leaves out of h the flags that the host does not take and returns them.
func (b *Betas) filter(h http.Header) (dropped []string) {
	sent := h[betaHeader]
	if len(sent) == 0 || b.Allow == nil && b.Drop == nil {
		return nil
	}
	var kept []string
	for flag := range strings.SplitSeq(strings.Join(sent, ","), ",") {
		flag = strings.TrimSpace(flag)
		if flag == "" {
			continue
		}
		if own := b.hostName(flag); own != "" {
			kept = append(kept, own)
			continue
		}
		dropped = append(dropped, flag)
	}
	if len(kept) == 0 {
		delete(h, betaHeader)
		return dropped
	}
	h[betaHeader] = []string{strings.Join(kept, ",")}
	return dropped
}

// hostName returns the host's name of a flag, empty when it does not take it.
func (b *Betas) hostName(flag string) string {
	for prefix, own := range b.Rename {
		if strings.HasPrefix(flag, prefix) {
			return own
		}
	}
	for _, prefix := range b.Drop {
		if strings.HasPrefix(flag, prefix) {
			return ""
		}
	}
	if b.Allow == nil {
		return flag
	}
	for _, known := range b.Allow {
		if flag == known {
			return flag
		}
	}
	return ""
}
