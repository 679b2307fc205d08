package server_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// mustNoteLarge adds rows with a body of the size.
func mustNoteLarge(t *testing.T, db *store.DB, size int, numbers ...int) {
	t.Helper()
	for _, n := range numbers {
		a := &store.Audit{ID: fmt.Sprintf("a-%d", n), Organisation: "a", Time: time.Now(), Method: "PUT", URI: "/v1/x", QueryParams: "{}", RequestHeaders: "{}", RequestBody: strings.Repeat("b", size), Status: 403}
		if err := db.AddAudit(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
}

// readCounted returns the text of the next message with octet counting.
func readCounted(r *bufio.Reader) (string, error) {
	var n int
	if _, err := fmt.Fscanf(r, "%d ", &n); err != nil {
		return "", err
	}
	message := make([]byte, n)
	_, err := io.ReadFull(r, message)
	return string(message), err
}

// rowOf returns the priority of a message and the id of its row.
func rowOf(message string) string {
	header, text, _ := strings.Cut(message, " audit - ")
	var e struct{ ID string }
	if json.Unmarshal([]byte(text), &e) != nil {
		return "not a row: " + message[:min(len(message), 200)]
	}
	return header[:6] + " " + e.ID
}

func TestSyslogByTLSReceivesTheAuditLogFromAServerThatFails(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	rows, cut, restart, closed := make(chan string, 1000), make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			if n == 0 { // no handshake
				raw.Close()
				continue
			}
			c := tls.Server(raw, &tls.Config{Certificates: certified.TLS.Certificates})
			r := bufio.NewReader(c)
			if n == 1 { // in the middle of the third record
				for range 2 {
					if message, err := readCounted(r); err == nil {
						rows <- rowOf(message)
					}
				}
				io.CopyN(io.Discard, r, 1000)
				raw.(*net.TCPConn).SetLinger(0)
				raw.Close()
				close(cut)
				continue
			}
			if n == 2 { // a restart of the server
				go func() { <-restart; c.Close(); close(closed) }()
			}
			for {
				message, err := readCounted(r)
				if err != nil {
					break
				}
				rows <- rowOf(message)
			}
			c.Close()
		}
	}()
	data := t.TempDir()
	db := storetest.Open(t, "file:"+data+"/modelgate.db")
	var numbers []int
	var want []string
	for n := range 60 { // more than the buffers of a connection take
		numbers, want = append(numbers, n+1), append(want, fmt.Sprintf("<108>1 a-%d", n+1))
	}
	mustNoteLarge(t, db, 400<<10, numbers...)
	defer runFor(t, data, "", fmt.Sprintf("audit: {syslog: {address: %q, protocol: tls, ca: %q}}\n", l.Addr(), ca))()
	seen := map[string]bool{}
	mustGet(t, seen, rows, want...)
	waittest.Receive(t, cut, "the cut")
	close(restart)
	waittest.Receive(t, closed, "the closed connection")
	for n := 61; n < 64; n++ { // the first of them meets the closed connection
		mustNoteLarge(t, db, 10, n)
		mustGet(t, seen, rows, fmt.Sprintf("<108>1 a-%d", n))
	}
}

func TestSyslogByUDPReceivesTheAuditLog(t *testing.T) {
	t.Parallel()
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.LocalAddr().String()
	mustRead := func() string {
		t.Helper()
		b := make([]byte, 64<<10)
		l.SetReadDeadline(time.Now().Add(time.Minute))
		n, _, err := l.ReadFrom(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	data := t.TempDir()
	db := storetest.Open(t, "file:"+data+"/modelgate.db")
	mustNote(t, db, "a", 1, 2)
	mustNoteLarge(t, db, 20<<10, 3)
	defer runFor(t, data, "", "audit: {syslog: {address: \""+address+"\", protocol: udp}}\n")()
	for _, want := range []string{"<110>1 a-1", "<110>1 a-2"} {
		if got := rowOf(mustRead()); got != want {
			t.Fatalf("received %s, want %s", got, want)
		}
	}
	if got := mustRead(); len(got) != 8<<10 || !strings.HasPrefix(got, "<108>1 ") || !strings.Contains(got, `"id":"a-3"`) {
		t.Errorf("received %d bytes, want the first 8192 of a-3: %.300s", len(got), got)
	}
	l.Close()
	mustNote(t, db, "a", 4, 5)                          // may be lost: nobody listens
	waittest.Until(t, "the port is free", func() bool { // another program may have got it
		l, err = net.ListenPacket("udp", address)
		return err == nil
	})
	defer l.Close()
	mustNote(t, db, "a", 6)
	for got := ""; got != "<110>1 a-6"; {
		if got = rowOf(mustRead()); !strings.HasPrefix(got, "<110>1 a-") {
			t.Fatalf("received %s", got)
		}
	}
}
