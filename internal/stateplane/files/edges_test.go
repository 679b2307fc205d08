package files_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// TestAClientThatWaitsToContinueIsRefusedEarly sends the head of an upload that has no room.
func TestAClientThatWaitsToContinueIsRefusedEarly(t *testing.T) {
	g := start(t, "files: {workspace_quota: 1 MB}\n")
	for _, tt := range []struct{ length, want int }{{2 << 20, 413}, {1000, 100}} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.Root, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /v1/files HTTP/1.1\r\nHost: gateway\r\nx-gateway-api-key: %s\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
			gatewaytest.Key, tt.length)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.Contains(line, fmt.Sprintf(" %d ", tt.want)) {
			t.Errorf("%d bytes: the first line is %q (%v), want status %d", tt.length, line, err, tt.want)
		}
		conn.Close()
	}
}

// TestPagesOfFilesNeitherSkipNorRepeatWhileOthersAreDeleted deletes files between two pages.
func TestPagesOfFilesNeitherSkipNorRepeatWhileOthersAreDeleted(t *testing.T) {
	g := start(t, "")
	for range 9 {
		mustUpload(t, g, "x")
	}
	page := func(query string) (ids []string) {
		for _, f := range get(g, "/files?"+query).JSON(t)["data"].([]any) {
			ids = append(ids, f.(map[string]any)["id"].(string))
		}
		return ids
	}
	for _, order := range []string{"desc", "asc"} {
		all := page("order=" + order)
		seen := page("limit=3&order=" + order)
		for _, gone := range []string{all[1], all[4]} {
			if res := g.Do(g.Request(http.MethodDelete, "/files/"+gone, "", "x-gateway-provider", "")); res.Status != 200 {
				t.Fatalf("deleting: %d %s", res.Status, res.Body)
			}
		}
		for next := page("limit=3&order=" + order + "&after=" + seen[len(seen)-1]); len(next) > 0; next = page("limit=3&order=" + order + "&after=" + seen[len(seen)-1]) {
			seen = append(seen, next...)
		}
		want := slices.Concat(all[:4], all[5:])
		if !slices.Equal(seen, want) {
			t.Errorf("%s: read %v, want %v", order, seen, want)
		}
	}
}
