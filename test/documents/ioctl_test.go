package documents_test

import (
	"syscall"
	"unsafe"
)

// control sends a request about an interface to the kernel.
func control[T any](socket int, request uintptr, v *T) error {
	if _, _, code := syscall.Syscall(syscall.SYS_IOCTL, uintptr(socket), request, uintptr(unsafe.Pointer(v))); code != 0 {
		return code
	}
	return nil
}
