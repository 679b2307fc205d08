package provider

import (
	"net/http"
	"slices"
	"strings"

	"modelgate/api"
)

// Vendor owns a family of headers: tokens, account ids and beta flags that are
// nobody else's business.
type Vendor string

// The vendors whose headers clients send.
const (
	VendorOpenAI    Vendor = "Openai-"
	VendorAnthropic Vendor = "Anthropic-"
	VendorGoogle    Vendor = "X-Goog-"
	VendorAmazon    Vendor = "X-Amz"
	VendorMicrosoft Vendor = "X-Ms-"
)

var vendors = [...]Vendor{VendorOpenAI, VendorAnthropic, VendorGoogle, VendorAmazon, VendorMicrosoft}

// dialectVendor is the vendor whose protocol a dialect is.
var dialectVendor = map[api.Dialect]Vendor{
	api.DialectChat:     VendorOpenAI,
	api.DialectMessages: VendorAnthropic,
	api.DialectGemini:   VendorGoogle,
	api.DialectConverse: VendorAmazon,
}

// takes reports whether headers of v may go to the provider.
func (s *Spec) takes(v Vendor) bool {
	return dialectVendor[s.Dialect] == v || slices.Contains(s.Vendors, v)
}

// DropOtherVendorHeaders removes from h the headers of vendors other than the provider's:
// a fallback from one vendor to another must not show the first one's account
// or beta flags to the second.
func (s *Spec) DropOtherVendorHeaders(h http.Header) {
	for name := range h {
		for _, v := range vendors {
			if strings.HasPrefix(name, string(v)) && !s.takes(v) {
				delete(h, name)
			}
		}
	}
}
