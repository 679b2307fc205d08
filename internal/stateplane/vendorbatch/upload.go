package vendorbatch

import (
	"errors"
	"io"
	"iter"
	"strings"
	"sync"
)

// records is a reader of all records of an input, between a beginning and an end. It
// translates line by line and holds one record at a time. Close releases it; a
// transport may still read concurrently.
type records struct {
	mu    sync.Mutex
	next  func() ([]byte, error, bool)
	stop  func()
	rest  []byte // of the current record
	tail  []byte
	ended bool
	err   error
}

// content returns the records of the input: head, the records with separator between
// them, and tail. Its length follows.
func (j *job) content(head, separator, tail string) (*records, int64) {
	next, stop := iter.Pull2(j.stream(separator))
	length := int64(len(head)+len(tail)) + j.summary.bytes - int64(j.summary.records) +
		int64(len(separator))*int64(max(j.summary.records-1, 0))
	return &records{next: next, stop: stop, rest: []byte(head), tail: []byte(tail)}, length
}

// stream yields the records of the input. A record is valid until the next.
func (j *job) stream(separator string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var buf []byte
		for line, err := range j.in.Lines() {
			if err != nil {
				yield(nil, err)
				return
			}
			err := j.eachRecord(&line, func(key string, body []byte) error {
				fresh := buf == nil
				if buf = buf[:0]; !fresh {
					buf = append(buf, separator...)
				}
				if buf = j.record(buf, &line, key, body); !yield(buf, nil) {
					return errStopped
				}
				return nil
			})
			if errors.Is(err, errStopped) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

var errStopped = errors.New("the reader stopped")

// Read implements io.Reader.
func (r *records) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		data, err, ok := r.next()
		switch {
		case err != nil:
			r.err = err
		case ok:
			r.rest = data
		case !r.ended:
			r.rest, r.ended = r.tail, true
		default:
			r.err = io.EOF
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Close ends the reader.
func (r *records) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stop()
	r.rest, r.err = nil, io.ErrClosedPipe
	return nil
}

// boundary separates the parts of a form. The content cannot have it at the beginning
// of a line: each of its lines is an object.
const boundary = "modelgate-batch-input"

// form returns the input as a member of a form, with fields as names and values in turn,
// and its content type.
func (j *job) form(member, fileName string, fields ...string) (*records, int64, string) {
	var head strings.Builder
	for i := 0; i+1 < len(fields); i += 2 {
		head.WriteString("--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + fields[i] + "\"\r\n\r\n" + fields[i+1] + "\r\n")
	}
	head.WriteString("--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + member + "\"; filename=\"" + fileName +
		"\"\r\nContent-Type: application/jsonl\r\n\r\n")
	body, length := j.content(head.String(), "\n", "\n\r\n--"+boundary+"--\r\n")
	return body, length, "multipart/form-data; boundary=" + boundary
}

// fileName returns the name of the input file, which has the record's id.
func (j *job) fileName() string { return fileNameOf(j.in.OwnID) }

func fileNameOf(ownID string) string {
	return "modelgate-" + first(safeName(ownID), "batch") + ".jsonl"
}

// safeName returns a name with letters, digits, hyphens and underscores only.
func safeName(name string) string {
	return strings.Map(func(c rune) rune {
		if isAlphanumeric(c) || c == '-' || c == '_' {
			return c
		}
		return '-'
	}, name)
}
