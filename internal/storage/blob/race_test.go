//go:build race

package blob_test

// raced reports whether the race detector runs.
const raced = true
