package blob

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"modelgate/internal/base/secret"
)

// Sealed stores the files of an organisation encrypted in another store. Sizes and
// positions are those of the plain data. It is safe for concurrent use.
//
// A file is a header and chunks of 64 KB, each sealed with AES-256-GCM. The header
// contains a random key, sealed with the data key and bound to the organisation and to
// the name of the file. The nonce of a chunk is its number, and whether it is the last.
// So a file that was altered, cut, reordered or exchanged with another one opens
// with an error. No byte is returned before its chunk has been verified. An earlier file
// of the same name opens too: names should be used once.
type Sealed struct {
	Files Store
	Key   *secret.DataKey // of the organisation
}

var _ Store = Sealed{}

// Parts of sealed files, in bytes.
const (
	chunkSize  = 64 << 10 // of plain data; only the last chunk is smaller
	tagSize    = 16
	sealedSize = chunkSize + tagSize
	headerSize = int64(len(sealedMark) + 32 + fileKeySize + tagSize)

	fileKeySize = 32
)

// sealedMark begins every sealed file and names the form of the rest.
const sealedMark = "mgblob1\n"

func damageError(cause error) error { return fault(cause, "the stored file is damaged or was altered") }

// Put implements [Store].
func (s Sealed) Put(ctx context.Context, name string, r io.Reader) (int64, error) {
	if err := check(name); err != nil {
		return 0, err
	}
	sealing, err := s.seal(name, r)
	if err != nil {
		return 0, err
	}
	if _, err := s.Files.Put(ctx, name, sealing); err != nil {
		return 0, err
	}
	return sealing.size, nil
}

// Get implements [Store].
func (s Sealed) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := s.GetRange(ctx, name, 0, -1)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// GetRange implements [Store]. It reads only the header and the chunks of the range. A
// range that reaches the end of the file includes its last chunk, even if it is empty, so
// that a file that was cut is never taken for a shorter one.
func (s Sealed) GetRange(ctx context.Context, name string, offset, length int64) (*Reader, error) {
	if err := checkRange(name, offset, length); err != nil {
		return nil, err
	}
	first, count := chunksOf(offset, length)
	wanted := headerSize
	if first == 0 {
		wanted = storedSize(headerSize, count)
	}
	r, err := s.Files.GetRange(ctx, name, 0, wanted)
	if err != nil {
		return nil, err
	}
	o, err := s.open(name, r)
	if err == nil {
		o.restrict(first, count, offset, length)
		if first > 0 {
			err = o.reopen(r.Size, func(offset, length int64) (*Reader, error) { return s.Files.GetRange(ctx, name, offset, length) })
		}
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return &Reader{o, o.size}, nil
}

// Size implements [Store]. It does not verify the file.
func (s Sealed) Size(ctx context.Context, name string) (int64, error) {
	stored, err := s.Files.Size(ctx, name)
	if err != nil {
		return 0, err
	}
	return plainSize(stored)
}

// List implements [Store]. The size of a file that is not sealed is -1.
func (s Sealed) List(ctx context.Context, folder string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for info, err := range s.Files.List(ctx, folder) {
			if err == nil {
				var e error
				if info.Size, e = plainSize(info.Size); e != nil {
					info.Size = -1
				}
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// Delete implements [Store].
func (s Sealed) Delete(ctx context.Context, name string) error { return s.Files.Delete(ctx, name) }

// DeleteIncomplete implements [Store]. It deletes those of all organisations.
func (s Sealed) DeleteIncomplete(ctx context.Context, before time.Time) error {
	return s.Files.DeleteIncomplete(ctx, before)
}

// Link implements [Store]: nobody can read a sealed file at an address.
func (Sealed) Link(context.Context, string, string, time.Duration) (string, error) { return "", nil }

// chunksOf returns the first chunk of a range, and how many it has at most, or -1 for all
// to the end.
func chunksOf(offset, length int64) (first, count int64) {
	const huge = 1 << 40
	if first = offset / chunkSize; length < 0 || length > huge {
		return first, -1
	}
	return first, (offset%chunkSize + length + chunkSize - 1) / chunkSize
}

// storedSize returns the length of count chunks after a number of bytes, or -1 for all
// to the end.
func storedSize(before, count int64) int64 {
	if count < 0 {
		return -1
	}
	return before + count*sealedSize
}

// plainSize returns the plain size of a file with a stored size.
func plainSize(stored int64) (int64, error) {
	body := stored - headerSize
	count := chunkCount(stored)
	if last := body - (count-1)*sealedSize; count < 1 || last < tagSize || last == tagSize && count > 1 {
		return 0, damageError(errors.New("the size is not one of a sealed file"))
	}
	return body - count*tagSize, nil
}

// chunkCount returns the number of chunks of a file with a stored size.
func chunkCount(stored int64) int64 { return (stored - headerSize + sealedSize - 1) / sealedSize }
