package blob

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
)

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
