package metering

import (
	"net/http"

	"modelgate/api"
	"modelgate/internal/limits/quota"
	"modelgate/internal/records/reqlog"
)

// UseOf returns what a settlement counts for in the ledger.
func UseOf(s *reqlog.Settlement) quota.Use {
	var sum reqlog.Spend
	sum.AddSettlement(s)
	u := quota.Use{Tokens: sum.Tokens, Cost: int64(sum.Cost)}
	if !failedByProvider(s) {
		u.Requests = 1
	}
	return u
}

// failedByProvider reports whether an attempt failed through no fault of the
// client, and therefore counts against no limit of requests.
func failedByProvider(s *reqlog.Settlement) bool {
	return s.Outcome == reqlog.Failed || s.Outcome == reqlog.Refused && providerFault(s.Status)
}

func providerFault(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// UsesTokens reports whether a request may use tokens or money. One that only reads,
// deletes or counts tokens uses none. size is that of its body, -1 if unknown.
func UsesTokens(op api.Operation, method string, size int64) bool {
	switch op {
	case "", api.Models, api.ToolCall, api.ToolPrompt, api.ToolResource, api.Tools, api.AgentMessage, api.Agents:
		return false
	case api.Proxy:
		return size != 0 && method != http.MethodGet && method != http.MethodDelete
	}
	return !op.CountsTokens()
}

// UsesMoney reports whether a request to a tool server may cost money: a call, whatever its
// price is, and no list.
func UsesMoney(op api.Operation) bool {
	return op.IsCall() || op == api.ToolPrompt || op == api.ToolResource
}

// countsRequest reports whether l counts requests of clients.
func countsRequest(l *quota.Limit) bool { return countsOne(l) && !l.PerAttempt }

// countsOne reports whether l counts requests, not what they use.
func countsOne(l *quota.Limit) bool {
	return l.Measure == quota.Requests || l.Measure == quota.Concurrent
}
