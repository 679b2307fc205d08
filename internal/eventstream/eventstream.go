// Package eventstream reads and writes the binary event streams of AWS.
//
// It promises to give out a message as soon as its last byte has arrived, with
// the bytes as they were received, and only when both of its checksums hold. What
// a message means is left to the readers.
package eventstream
