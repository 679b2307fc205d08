package blob

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
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
// with an error. No byte is returned before its chunk has been verified.
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

// chunksOf returns the first chunk of a range, and how many it has at most: at least
// one, or -1 for all to the end.
func chunksOf(offset, length int64) (first, count int64) {
	const huge = 1 << 40
	if first = offset / chunkSize; length < 0 || length > huge {
		return first, -1
	}
	return first, max((offset%chunkSize+length+chunkSize-1)/chunkSize, 1)
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

// nonce returns the nonce of a chunk.
func nonce(number int64, last bool) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 3, 12), uint64(number))
	if last {
		return append(b, 1)
	}
	return append(b, 0)
}

// keyBinding returns the text that the key of a file is bound to.
func keyBinding(name string) string { return "key of the file " + name }

// chunkCipher returns the cipher of the chunks of a file.
func chunkCipher(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// sealing is a reader of the sealed form of a file.
type sealing struct {
	plain  io.Reader
	aead   cipher.AEAD
	number int64  // of the next chunk
	size   int64  // of the plain data of the chunks so far
	buf    []byte // plain data of the next chunk, and one byte of the chunk after
	filled int    // of buf
	chunk  []byte // reused
	out    []byte // sealed and not read yet
	ended  bool
}

// seal returns a reader of the sealed form of a file.
func (s Sealed) seal(name string, plain io.Reader) (*sealing, error) {
	key := make([]byte, fileKeySize)
	rand.Read(key) // never fails: crypto/rand ends the program instead
	aead, err := chunkCipher(key)
	if err != nil {
		return nil, err
	}
	header := append([]byte(sealedMark), s.Key.SealMessage(key, keyBinding(name))...)
	return &sealing{plain: plain, aead: aead, out: header, buf: make([]byte, chunkSize+1), chunk: make([]byte, 0, sealedSize)}, nil
}

// Read implements io.Reader. If p has room for a chunk, the chunk is sealed in it.
func (s *sealing) Read(p []byte) (n int, err error) {
	if len(s.out) == 0 && s.ended {
		return 0, io.EOF
	}
	if len(s.out) == 0 && len(p) >= sealedSize {
		chunk, err := s.next(p[:0])
		return len(chunk), err
	}
	if len(s.out) == 0 {
		if s.out, err = s.next(s.chunk); err != nil {
			return 0, err
		}
	}
	n = copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// next appends the next chunk to b. Only the byte after a chunk shows whether it is the
// last.
func (s *sealing) next(b []byte) ([]byte, error) {
	n, err := readFull(s.plain, s.buf[s.filled:])
	if s.filled += n; err != nil {
		return nil, err
	}
	s.ended = s.filled < len(s.buf)
	plain := s.buf[:min(s.filled, chunkSize)]
	b = s.aead.Seal(b, nonce(s.number, s.ended), plain, nil)
	s.number++
	s.size += int64(len(plain))
	s.filled = copy(s.buf, s.buf[len(plain):s.filled])
	return b, nil
}

// opening is a reader of the plain data of a range of a sealed file.
type opening struct {
	stored io.ReadCloser // the next chunks
	aead   cipher.AEAD
	size   int64  // of the plain data of the file
	number int64  // of the next chunk
	count  int64  // of chunks to read
	last   int64  // number of the last chunk of the file
	skip   int64  // bytes of the next chunk before the range
	rest   int64  // bytes of the range after plain
	buf    []byte // of a chunk
	plain  []byte // opened and not read yet
	err    error  // of an earlier read
}

// open reads the header of a file.
func (s Sealed) open(name string, r *Reader) (*opening, error) {
	size, err := plainSize(r.Size)
	if err != nil {
		return nil, err
	}
	header := make([]byte, headerSize)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, readError(err)
	}
	sealedKey, ok := bytes.CutPrefix(header, []byte(sealedMark))
	if !ok {
		return nil, damageError(errors.New("the file is not sealed"))
	}
	key, err := s.Key.OpenMessage(sealedKey, keyBinding(name))
	if err != nil {
		return nil, damageError(err)
	}
	aead, err := chunkCipher(key)
	if err != nil {
		return nil, err
	}
	last := chunkCount(r.Size) - 1
	return &opening{stored: r, aead: aead, size: size, count: last + 1, last: last, rest: size, buf: make([]byte, sealedSize)}, nil
}

// restrict restricts a reader to a range with the given chunks.
func (o *opening) restrict(first, count, offset, length int64) {
	o.number = min(first, o.last)
	if o.count = o.last + 1 - o.number; count >= 0 {
		o.count = min(o.count, count)
	}
	o.skip = offset - o.number*chunkSize
	o.rest = clamp(o.size, offset, length)
}

// reopen continues at the first chunk of the range, in a file of a stored size.
func (o *opening) reopen(size int64, get func(offset, length int64) (*Reader, error)) error {
	r, err := get(headerSize+o.number*sealedSize, o.count*sealedSize)
	if err != nil {
		return err
	}
	if r.Size != size {
		r.Close()
		return damageError(errors.New("the size has changed"))
	}
	o.stored.Close()
	o.stored = r
	return nil
}

// Read implements io.Reader.
func (o *opening) Read(p []byte) (int, error) {
	for len(o.plain) == 0 && o.count > 0 && o.err == nil {
		o.plain, o.err = o.next()
	}
	switch {
	case o.err != nil:
		return 0, o.err
	case len(o.plain) == 0:
		return 0, io.EOF
	}
	n := copy(p, o.plain)
	o.plain = o.plain[n:]
	return n, nil
}

// next returns the bytes of the range in the next chunk.
func (o *opening) next() ([]byte, error) {
	chunk := o.buf
	if o.number == o.last {
		chunk = chunk[:o.size-o.last*chunkSize+tagSize]
	}
	if _, err := io.ReadFull(o.stored, chunk); err != nil {
		return nil, readError(err)
	}
	plain, err := o.aead.Open(chunk[:0], nonce(o.number, o.number == o.last), chunk, nil)
	if err != nil {
		return nil, damageError(err)
	}
	o.number++
	o.count--
	plain = plain[min(o.skip, int64(len(plain))):]
	plain = plain[:min(o.rest, int64(len(plain)))]
	o.skip = 0
	o.rest -= int64(len(plain))
	return plain, nil
}

// Close implements io.Closer.
func (o *opening) Close() error { return o.stored.Close() }

// readError returns the error of a file that ended too early, or of the store.
func readError(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return damageError(err)
	}
	return err
}
