package kv

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/rueidis"

	"modelgate/internal/base/oserr"
)

// advice is what to change if Redis responds with an error that begins with a word, %s
// being the setting with the address.
var advice = map[string]string{
	"NOAUTH":    "put the user and the password into %s",
	"WRONGPASS": "check the user and the password in %s",
	"NOPERM":    "allow the user in %s these commands and keys",
	"ERR":       "check the user, the password and the number of the database in %s",
}

// explain returns err as one sentence that says what is wrong and which setting to
// check. It contains no address.
func (c *Conn) explain(err error) error {
	if c.Permanent != nil && c.Permanent(err) {
		return err // our own
	}
	if e, ok := rueidis.IsRedisErr(err); ok {
		text := strings.TrimSuffix(e.Error(), ".")
		word, _, _ := strings.Cut(text, " ")
		return fmt.Errorf("%s; %s", text, strings.ReplaceAll(cmp.Or(advice[word], "check the server that %s names"), "%s", c.Setting))
	}
	_, unknown := errors.AsType[*net.DNSError](err)
	switch reason := oserr.ConnectionReason(err); {
	case unknown:
		return fmt.Errorf("%s; check the host in %s", reason, c.Setting)
	case oserr.TLSReason(err) != "":
		return fmt.Errorf("%s; check the host in %s, and whether it must begin with rediss:// or redis://", reason, c.Setting)
	default:
		return fmt.Errorf("%s; check the host and the port in %s, and that the server runs", cmp.Or(reason, "no connection"), c.Setting)
	}
}
