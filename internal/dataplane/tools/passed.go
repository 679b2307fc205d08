package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/provider/toolserver"
)

// withPassed adds the headers of the client that a server is sent. They make the credential
// another one: what a server says to them is not for other callers. Credentials of the gateway
// are never passed.
func (x *request) withPassed(c peer.Credential, s *toolserver.Server) peer.Credential {
	sum := sha256.New()
	var passed http.Header
	for _, name := range slices.Sorted(slices.Values(s.PassHeaders)) {
		values := x.http.Header.Values(name)
		if len(values) == 0 || x.tools.HoldsKey(values) {
			continue
		}
		if passed == nil {
			passed = maps.Clone(c.Header)
			if passed == nil {
				passed = make(http.Header)
			}
		}
		passed[http.CanonicalHeaderKey(name)] = slices.Clip(values)
		sum.Write([]byte(name + "\x00"))
		for _, v := range values {
			sum.Write([]byte(v + "\x00"))
		}
	}
	if passed == nil {
		return c
	}
	return peer.Credential{Key: c.Key + " " + hex.EncodeToString(sum.Sum(nil)), Header: passed, Renew: c.Renew}
}
