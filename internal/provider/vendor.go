package provider

import (
	"net/http"
	"slices"
	"strings"

	"modelgate/api"
)

// Vendor is the owner of a family of headers: tokens, account ids and beta
// flags that no other vendor should see.
type Vendor string

// Vendors whose headers clients send.
const (
	VendorOpenAI    Vendor = "Openai-"
	VendorAnthropic Vendor = "Anthropic-"
	VendorGoogle    Vendor = "X-Goog-"
	VendorAmazon    Vendor = "X-Amz"
	VendorMicrosoft Vendor = "X-Ms-"
)

var vendors = [...]Vendor{VendorOpenAI, VendorAnthropic, VendorGoogle, VendorAmazon, VendorMicrosoft}

// dialectVendor maps a dialect to the vendor that defined it.
var dialectVendor = map[api.Dialect]Vendor{
	api.DialectChat:     VendorOpenAI,
	api.DialectMessages: VendorAnthropic,
	api.DialectGemini:   VendorGoogle,
	api.DialectConverse: VendorAmazon,
}

// takes reports whether headers of v may be sent to the provider.
func (s *Spec) takes(v Vendor) bool {
	return dialectVendor[s.Dialect] == v || slices.Contains(s.Vendors, v)
}

// DropOtherVendorHeaders removes the headers of vendors other than the
// provider's from h: a fallback to another vendor must not reveal the first
// one's account or beta flags.
func (s *Spec) DropOtherVendorHeaders(h http.Header) {
	for name := range h {
		for _, v := range vendors {
			if strings.HasPrefix(name, string(v)) && !s.takes(v) {
				delete(h, name)
			}
		}
	}
}
