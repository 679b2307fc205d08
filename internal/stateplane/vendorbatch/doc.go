// Package vendorbatch runs batches at vendors that have a batch API, and shows them
// in the unified shape.
//
// A [Vendor] creates, reads, cancels and finds batches and streams their results. It
// guarantees that every status is one of the eight of the unified batch, that times
// are Unix seconds, and that each line of the input has exactly one result, in the
// format of the client's endpoint: lines that a vendor loses, doubles or garbles have
// an error. What differs between vendors is data in the table of [For]; formats of
// requests and responses are those of the dialects.
//
// It does not send requests itself, hold credentials, store anything or poll: requests
// go through a [vendorcall.Caller], and the caller of the package owns records and files.
package vendorbatch
