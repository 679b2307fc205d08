//go:build !linux

package wasmcode

// limitProcess does nothing: [watchMemory] and the time limit end the process.
func limitProcess() {}
