package vendorpath

import (
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
)

// maxBatchFiles limits the files that the body of a batch refers to.
const maxBatchFiles = 500

// filesOfBatch returns the ids of the files that the body of a new batch refers to: its
// input, and those of requests in it. Every spelling counts, however often it is there.
func filesOfBatch(body []byte) ([]string, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil || v.Kind() != jsonedit.Object {
		return nil, apierr.New(apierr.Invalid, "the request body is not a JSON object").WithCode("invalid_json")
	}
	w := fileNames{cursor: jsonedit.NewCursor(body)}
	w.value()
	if len(w.ids) > maxBatchFiles {
		return nil, apierr.New(apierr.Invalid, "the batch refers to more than %d files; divide it", maxBatchFiles).WithCode("too_many_files")
	}
	return w.ids, nil
}

// fileNames finds the names and addresses of files in a body, in one pass.
type fileNames struct {
	cursor *jsonedit.Cursor
	ids    []string
}

// notFiles are members of requests whose content is data.
var notFiles = []string{"args", "response", "parameters", "metadata", "schema"}

func (w *fileNames) value() {
	switch w.cursor.Kind() {
	case jsonedit.Object:
		w.cursor.Enter('{')
		for {
			key, ok := w.cursor.Field()
			if !ok {
				return
			}
			w.member(string(jsonedit.Unescape(key)))
		}
	case jsonedit.Array:
		w.cursor.Enter('[')
		for w.cursor.Element() {
			w.value()
		}
	default:
		w.cursor.Skip()
	}
}

// member reads the value of a member.
func (w *fileNames) member(name string) {
	isName := name == "fileName" || name == "file_name"
	switch {
	case w.cursor.Kind() == jsonedit.String && (isName || name == "fileUri" || name == "file_uri"):
		text := string(jsonedit.Unescape(w.cursor.Text()))
		i := strings.LastIndex(text, "files/")
		if i < 0 && !isName { // the address of something else, such as a video
			return
		}
		id := text[max(i, 0):]
		id, _, _ = strings.Cut(strings.TrimPrefix(id, "files/"), ":")
		if !slices.Contains(w.ids, id) && len(w.ids) <= maxBatchFiles {
			w.ids = append(w.ids, id)
		}
	case slices.Contains(notFiles, name):
		w.cursor.Skip()
	default:
		w.value()
	}
}
