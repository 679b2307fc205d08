package ledger

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"modelgate/internal/records/reqlog"
)

// The length in the head of a record leads to the next record. If it is wrong, the rest
// of the segment cannot be read, which holds attempts of other tenants.
func TestIntentsAreAsLongAsTheirHeadSays(t *testing.T) {
	names := [...][3]string{{"openai", "main", "gpt"}, {"openai", "main", ""}, {"openai", "", "gpt"}, {"", "main", "gpt"}, {"", "", ""}}
	for length := range 300 {
		for _, n := range names {
			i := &reqlog.Intent{
				ID: reqlog.NewID(time.Now()), Time: time.Now(),
				Organisation: strings.Repeat("o", 36), Workspace: strings.Repeat("w", 36), KeyID: strings.Repeat("k", length),
				Provider: n[0], Slug: n[1], Model: n[2], Flat: length%2 == 0, Price: 12,
			}
			b := appendIntent(nil, 0, i)
			if head := int(binary.LittleEndian.Uint32(b[4:])); head != len(b) {
				t.Errorf("key id of %d bytes, names %q: the head says %d bytes, the record has %d", length, n, head, len(b))
			}
		}
	}
}
