package provider

import (
	"net/http"
	"slices"
	"strings"

	"modelgate/api"
)

// betaHeader has the beta flags of one vendor's protocol, separated by commas.
const betaHeader = "Anthropic-Beta"

// Betas lists the beta flags that a host accepts. The zero value accepts all.
// It is needed for hosts that reject a request with an unknown flag.
type Betas struct {
	Allow  []string          // the only accepted flags; nil accepts all
	Drop   []string          // prefixes of flags to remove
	Rename map[string]string // the host's flag by prefix
}

// BodyBetas removes the beta flags from h if the host expects them in the body
// of op. It returns the body field for them, the accepted flags and the dropped
// ones. The field is empty if the header stays.
func (s *Spec) BodyBetas(op api.Operation, h http.Header) (field string, taken, dropped []string) {
	field = s.BodyRules[op].Betas
	if field == "" {
		return "", nil, nil
	}
	dropped = s.Betas.filter(h)
	key, _ := HeaderKey(h, betaHeader)
	for flag := range strings.SplitSeq(strings.Join(h[key], ","), ",") {
		if flag = strings.TrimSpace(flag); flag != "" {
			taken = append(taken, flag)
		}
	}
	delete(h, key)
	return field, taken, dropped
}

// filter removes the flags that the host does not accept from h and returns
// them.
func (b *Betas) filter(h http.Header) (dropped []string) {
	if b.Allow == nil && b.Drop == nil {
		return nil
	}
	key, _ := HeaderKey(h, betaHeader)
	sent := h[key]
	if len(sent) == 0 {
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
		delete(h, key)
		return dropped
	}
	h[key] = []string{strings.Join(kept, ",")}
	return dropped
}

// hostName returns the host's name of a flag, empty if the host does not accept
// it.
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
	if slices.Contains(b.Allow, flag) {
		return flag
	}
	return ""
}
