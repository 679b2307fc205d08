package access

import (
	"net/netip"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/clientaddr"
)

// MaxAddresses is the limit of networks of a key.
const MaxAddresses = 100

// ParseAddresses parses the addresses and CIDRs of [Identity.AllowedAddresses]. With an
// error it still returns one prefix for each string; the prefix of an invalid string is
// invalid and contains no address.
func ParseAddresses(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	var first error
	for _, text := range list {
		p, err := clientaddr.ParsePrefix(text)
		if err != nil && first == nil {
			first = err
		}
		out = append(out, p)
	}
	return out, first
}

// CheckAddress returns an error if the key may not be used from a client's address,
// given as host:port.
func (id *Identity) CheckAddress(remote string) error {
	if len(id.AllowedAddresses) == 0 {
		return nil
	}
	a := clientaddr.Host(remote)
	for _, p := range id.AllowedAddresses {
		if p.Contains(a) {
			return nil
		}
	}
	return apierr.New(apierr.Forbidden, "this gateway key may not be used from the address %s; its allowed_addresses do not contain it", a).
		WithParam("allowed_addresses").WithCode("address_not_allowed")
}
