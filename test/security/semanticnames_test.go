package security

import (
	"fmt"
	"strings"
	"testing"
)

// TestSemanticCacheKeepsNamesApart shows that no response about one name is served for a
// question about another that differs only in an s, or in the spelling of words that are
// not names.
func TestSemanticCacheKeepsNamesApart(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	p := newProvider(t, nil)
	header := toCustomHost(rootKey, p)
	header = append(header, "x-gateway-config", `{"cache":{"mode":"semantic","max_age":600}}`)
	ask := func(t *testing.T, question string) string {
		t.Helper()
		body := fmt.Sprintf(`{"model":"gpt-4o","messages":[{"role":"user","content":%q}]}`, question)
		return g.do(t, "POST", completePath, body, header...).ok(t).header.Get("x-gateway-cache-status")
	}
	for _, pair := range [][2]string{
		{"William", "Williams"}, {"Robert", "Roberts"}, {"Peter", "Peters"}, {"Edward", "Edwards"}, {"Richard", "Richards"}, {"Stephen", "Stephens"},
		{"Phillip", "Phillips"}, {"Hugh", "Hughes"}, {"Jack", "Jacks"}, {"Matthew", "Matthews"}, {"Andrew", "Andrews"}, {"Brook", "Brookes"}, {"Jone", "Jones"},
		{"Barry", "Barries"}, {"Bond", "Bonds"}, {"Wood", "Woods"}, {"Bridge", "Bridges"}, {"Rhode", "Rhodes"}, {"Cumming", "Cummings"}, {"Siemen", "Siemens"},
		{"Sear", "Sears"}, {"Adida", "Adidas"}, {"Mercede", "Mercedes"}, {"Walgreen", "Walgreens"}, {"Lego", "Legos"}, {"Nauru", "Naurus"}, {"Guinea", "Guineas"},
		{"Carolina", "Carolinas"}, {"Vega", "Vegas"}, {"Naple", "Naples"}, {"Cat", "Cats"}, {"Gray", "Grey"}, {"Rich", "Wealthy"}, {"Foot", "Feet"}, {"Center", "Centre"},
	} {
		attack(t, "isolation", "semantic cache: "+pair[0]+" and "+pair[1], func(t *testing.T) {
			for _, form := range []string{"Who exactly was %s?", "where does %s come from"} {
				first, second := fmt.Sprintf(form, pair[0]), fmt.Sprintf(form, pair[1])
				if got := ask(t, first); got == "HIT" || got == "SEMANTIC HIT" {
					t.Fatalf("%q is a %s before it was asked", first, got)
				}
				if got := ask(t, second); got != "SEMANTIC MISS" {
					t.Errorf("%q after %q is a %s", second, first, got)
				}
			}
		})
		if pair[0] == "Cat" || pair[0] == "Gray" || pair[0] == "Rich" || pair[0] == "Foot" || pair[0] == "Center" {
			continue // in lower case these are words, not names
		}
		attack(t, "isolation", "semantic cache: "+strings.ToLower(pair[0])+" and "+strings.ToLower(pair[1]), func(t *testing.T) {
			first, second := fmt.Sprintf("how old is %s", strings.ToLower(pair[0])), fmt.Sprintf("how old is %s", strings.ToLower(pair[1]))
			ask(t, first)
			if got := ask(t, second); got != "SEMANTIC MISS" {
				t.Errorf("%q after %q is a %s", second, first, got)
			}
		})
	}
	for _, pair := range [][2]string{
		{"How do I sort a list?", "how do i sort lists?"}, {"How long do eggs take?", "how long does an egg take?"}, {"Who was William?", "who was william"}, {"How much is 5 Kilometers?", "how much is 5 kilometres?"},
	} {
		t.Run("legitimate: "+pair[0], func(t *testing.T) {
			ask(t, pair[0])
			if got := ask(t, pair[1]); got != "SEMANTIC HIT" {
				t.Errorf("%q after %q is a %s", pair[1], pair[0], got)
			}
		})
	}
}
