package blob

import "testing"

// Uploads returns the number of incomplete uploads of a bucket.
func (b *Bucket) Uploads(t *testing.T) int {
	t.Helper()
	page, err := b.listUploads(t.Context(), b.prefix, "", "")
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Uploads)
}
