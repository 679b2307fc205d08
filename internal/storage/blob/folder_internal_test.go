package blob

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

func TestSystemErrorsAreReportedAsText(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string // empty for an error that stays
	}{
		{&os.PathError{Op: "write", Path: "/secret/path", Err: syscall.ENOSPC}, "no room is left on the disk"},
		{errors.Join(nil, &os.PathError{Op: "sync", Err: syscall.EDQUOT}), "no room is left on the disk"},
		{&os.PathError{Op: "open", Err: syscall.EROFS}, "the folder can't be written to"},
		{&os.PathError{Op: "mkdir", Err: syscall.EACCES}, "the folder can't be written to"},
		{&os.PathError{Op: "write", Path: "/secret/path", Err: syscall.EIO}, "the disk can't be read or written"},
		{&os.PathError{Op: "open", Err: syscall.ENOENT}, ""},
		{context.Canceled, ""},
	} {
		got := explain(tt.err)
		f, ok := errors.AsType[*Error](got)
		if ok != (tt.want != "") || ok && f.Reason != tt.want || !errors.Is(got, errors.Unwrap(tt.err)) && ok && errors.Unwrap(tt.err) != nil {
			t.Errorf("explain(%v) = %v, want %q", tt.err, got, tt.want)
		}
	}
	if explain(nil) != nil || !errors.Is(explain(fs.ErrNotExist), fs.ErrNotExist) {
		t.Error("explain changes what is to stay")
	}
}
