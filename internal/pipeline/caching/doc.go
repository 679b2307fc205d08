// Package caching answers requests with stored responses, and with the response to an equal
// request that is in progress ([Cache]).
//
// It guarantees that requests share a response only if everything is equal that could change
// it, target, settings and guardrails included, that only complete responses are stored, and
// that a store that fails costs a hit and not the request. Keeping responses is the job of
// the packages in cache.
package caching
